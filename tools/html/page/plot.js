/** A canvas that fills its element, sharp on any screen, drawn at most once a frame. */
import {lastWhere} from './axis.js';
import {styleColor} from './colors.js';
import {element} from './dom.js';

/** @type {number[]} how long each of the last drawings took, for the benchmark */
export const drawTimes = [];
const KEPT_TIMES = 600;
const AXIS_HEIGHT = 20;

/** @param {HTMLCanvasElement} canvas */
function contextOf(canvas) {
  return /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
}

export class Plot {
  /**
   * @param {string} label describes the picture for screen readers @param {string} keys says what keys do in it
   * @param {() => void} draw @param {string} [role] of what takes keys
   */
  constructor(label, keys, draw, role = 'application') {
    this.canvas = /** @type {HTMLCanvasElement} */ (element('canvas', {role, 'aria-label': label, 'aria-description': keys, tabindex: '0'}));
    this.element = element('div', {class: 'plot'}, this.canvas);
    this.context = contextOf(this.canvas);
    this.draw = draw;
    this.width = 0; /* CSS pixels, like height and all drawing */
    this.height = 0;
    this.ratio = 1;
    this.isPending = false;
    this.isMoving = false; /* during a drag or wheel turn: quick before sharp */
    this.settle = 0;
    new ResizeObserver(() => this.resize()).observe(this.element);
  }

  /** Where the labels of the axis begin. */
  get bottom() {
    return this.height - AXIS_HEIGHT;
  }

  resize() {
    const {clientWidth, clientHeight} = this.element;
    if (clientWidth === this.width && clientHeight === this.height && this.ratio === devicePixelRatio)
      return;
    this.width = clientWidth;
    this.height = clientHeight;
    this.ratio = devicePixelRatio;
    this.canvas.width = Math.max(1, Math.round(this.width * this.ratio));
    this.canvas.height = Math.max(1, Math.round(this.height * this.ratio));
    this.invalidate();
  }

  /** Draws it in the next frame, if visible. */
  invalidate() {
    if (this.isPending)
      return;
    this.isPending = true;
    requestAnimationFrame(() => {
      this.isPending = false;
      if (this.width && this.height && this.element.isConnected)
        this.drawNow();
    });
  }

  drawNow() {
    const begin = performance.now();
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height);
    this.draw();
    drawTimes.push(performance.now() - begin);
    if (drawTimes.length > KEPT_TIMES)
      drawTimes.shift();
  }

  /** Call while the user moves the picture; shortly after the last move it is drawn sharply. */
  moving() {
    this.isMoving = true;
    clearTimeout(this.settle);
    this.settle = window.setTimeout(() => {
      this.isMoving = false;
      this.invalidate();
    }, 150);
    this.invalidate();
  }

  /** @param {MouseEvent} event */
  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  }

  /** @param {string} color a custom property @param {CanvasTextBaseline} baseline @param {number} size pixels */
  textStyle(color, baseline, size = 11) {
    this.context.font = `${size}px system-ui, sans-serif`;
    this.context.textBaseline = baseline;
    this.context.fillStyle = styleColor(color);
  }

  /**
   * Draws text, cut to the room.
   * @param {string} text @param {number} x @param {number} y @param {number} room
   */
  text(text, x, y, room) {
    const {context} = this;
    if (context.measureText(text).width <= room) {
      context.fillText(text, x, y);
      return;
    }
    const most = lastWhere(0, Math.min(text.length, 400), length => context.measureText(text.slice(0, length) + '…').width <= room);
    if (most > 2)
      context.fillText(text.slice(0, most) + '…', x, y);
  }
}

/** An image of pixels to put on a canvas. */
export class Raster {
  constructor() {
    this.canvas = document.createElement('canvas');
    this.image = new ImageData(1, 1);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /** @param {number} width @param {number} height of the empty image */
  begin(width, height) {
    if (width !== this.image.width || height !== this.image.height) {
      this.canvas.width = width;
      this.canvas.height = height;
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    } else {
      this.pixels.fill(0);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  put(context, width, height) {
    contextOf(this.canvas).putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.canvas, 0, 0, width, height);
  }
}
