/**
 * A table of any number of rows; only visible rows are elements. Users can sort it, use it by keyboard, and copy it as
 * tab-separated values. Screen readers see a grid with all rows.
 */
import {copyButton} from './copy.js';
import {element, replace} from './dom.js';

export const ROW_HEIGHT = 24; /* equals --row-height of views.css */
const BEYOND = 8; /* rows kept above and below the visible ones */

let tables = 0;

/** @param {string | number} value @returns {string} a cell for a spreadsheet: one line, and no formula */
export function tsvCell(value) {
  if (typeof value === 'number')
    return String(value);
  const line = value.replace(/[\t\r\n\v\f\u0085]+/g, ' ');
  return /^[=+\-@]/.test(line) ? "'" + line : line;
}

export class Table {
  /** @param {TableOptions} options */
  constructor(options) {
    this.options = options;
    this.id = `table${++tables}`;
    /** @type {TableColumn[]} */
    this.columns = [];
    this.rows = new Uint32Array(0); /* in display order */
    this.sort = {column: '', isDescending: true};
    this.active = 0; /* index into rows */
    this.first = -1;
    this.last = -1;
    this.isPending = false;
    this.head = element('div', {class: 'table-head', role: 'row', 'aria-rowindex': 1});
    this.body = element('div', {class: 'table-body', role: 'presentation'});
    this.element = element('div', {
      class: 'table', id: this.id, role: options.branch ? 'treegrid' : 'grid', tabindex: 0, 'aria-label': options.label,
      onscroll: () => this.draw(false), onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      onclick: (/** @type {MouseEvent} */ event) => this.click(event),
    }, this.head, this.body);
    new ResizeObserver(() => this.draw(false)).observe(this.element);
  }

  /** @param {TableColumn[]} columns @param {Table['sort']} [sort] column: an id; '': order of the rows */
  setColumns(columns, sort = {column: '', isDescending: false}) {
    this.columns = columns;
    this.sort = sort;
    this.element.style.setProperty('--columns', columns.map(one => one.width).join(' '));
    this.drawHead();
  }

  /** @param {Uint32Array} rows @param {boolean} [isNew] goes to the first row */
  setRows(rows, isNew = false) {
    this.rows = rows;
    this.sortRows();
    this.active = isNew ? 0 : Math.max(0, Math.min(this.active, rows.length - 1));
    if (isNew)
      this.element.scrollTop = 0;
    this.element.setAttribute('aria-rowcount', String(rows.length + 1));
    this.draw(true);
  }

  sortRows() {
    const column = this.columns.find(one => one.id === this.sort.column);
    if (!column || this.options.isSorted === false)
      return;
    const value = column.value || column.text;
    const {rows} = this;
    const sign = this.sort.isDescending ? -1 : 1;
    const values = Array.from(rows, row => value(row));
    const places = Uint32Array.from(rows.keys());
    places.sort((a, b) => (values[a] < values[b] ? -sign : values[a] > values[b] ? sign : rows[a] - rows[b]));
    this.rows = places.map(place => rows[place]);
  }

  drawHead() {
    replace(this.head, ...this.columns.map(column => {
      const isSorted = column.id === this.sort.column;
      const arrow = isSorted ? (this.sort.isDescending ? ' ↓' : ' ↑') : '';
      const label = this.options.isSorted === false ? column.label
        : element('button', {type: 'button', onclick: () => this.sortBy(column)}, column.label + arrow);
      return element('div', {
        role: 'columnheader', class: column.isNumber ? 'number' : '', title: column.title,
        'aria-sort': isSorted ? (this.sort.isDescending ? 'descending' : 'ascending') : null,
      }, label);
    }));
  }

  /** @param {TableColumn} column */
  sortBy(column) {
    const isSame = this.sort.column === column.id;
    this.sort = {column: column.id, isDescending: isSame ? !this.sort.isDescending : Boolean(column.isNumber)};
    this.sortRows();
    this.active = 0;
    this.element.scrollTop = 0;
    this.drawHead();
    this.draw(true);
    const place = this.columns.indexOf(column);
    /** @type {HTMLElement} */ (this.head.children[place].firstElementChild).focus();
  }

  /** @param {boolean} isChanged false: only scrolled */
  draw(isChanged) {
    const {scrollTop, clientHeight} = this.element;
    const first = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil((scrollTop + clientHeight) / ROW_HEIGHT) + BEYOND);
    if (!isChanged && first === this.first && last === this.last)
      return;
    this.first = first;
    this.last = last;
    this.body.style.height = `${Math.max(1, this.rows.length) * ROW_HEIGHT}px`;
    /** @type {HTMLElement[]} */
    const made = [];
    for (let place = first; place < last; place++)
      made.push(this.makeRow(place));
    replace(this.body, ...made);
    if (!this.rows.length)
      this.body.append(element('div', {class: 'table-empty'}, this.options.empty || 'Nothing here.'));
    this.drawActive();
  }

  /** @param {number} place */
  makeRow(place) {
    const row = this.rows[place];
    const {branch, isSelected} = this.options;
    const of = branch?.(row);
    const isChosen = isSelected?.(row) ?? false;
    const cells = this.columns.map((column, at) => {
      const text = column.text(row);
      const isTree = of && at === 0;
      const twist = isTree && element('span', {class: 'twist', 'aria-hidden': 'true'}, of.expanded === null ? '' : of.expanded ? '▾' : '▸');
      const cell = element('div', {role: 'gridcell', class: column.isNumber ? 'number' : '', title: text.length > 12 ? text : null},
        twist, column.before?.(row), text);
      if (isTree)
        cell.style.paddingLeft = `${8 + 14 * Math.min(of.level, 30)}px`;
      return cell;
    });
    const made = element('div', {
      role: 'row', id: `${this.id}-${place}`, class: isChosen ? 'table-row chosen' : 'table-row', 'aria-rowindex': place + 2,
      'aria-selected': isSelected ? String(isChosen) : null, 'aria-level': of && of.level + 1,
      'aria-expanded': of?.expanded?.toString(), 'data-place': place,
    }, ...cells);
    made.style.top = `${place * ROW_HEIGHT}px`;
    return made;
  }

  drawActive() {
    for (const row of this.body.children)
      row.classList.toggle('active', /** @type {HTMLElement} */ (row).dataset.place === String(this.active));
    if (this.active >= this.first && this.active < this.last) /* else the row is not an element now */
      this.element.setAttribute('aria-activedescendant', `${this.id}-${this.active}`);
    else
      this.element.removeAttribute('aria-activedescendant');
  }

  /** @param {number} place the row there becomes the active one, and is scrolled into view */
  go(place) {
    this.active = Math.max(0, Math.min(place, this.rows.length - 1));
    const top = this.active * ROW_HEIGHT;
    const room = this.element.clientHeight - this.head.offsetHeight;
    if (top < this.element.scrollTop)
      this.element.scrollTop = top;
    else if (top + ROW_HEIGHT > this.element.scrollTop + room)
      this.element.scrollTop = top + ROW_HEIGHT - room;
    this.draw(false);
    this.drawActive();
  }

  /** @param {number} row */
  goTo(row) {
    const place = this.rows.indexOf(row);
    if (place >= 0)
      this.go(place);
  }

  /** @param {MouseEvent} event */
  click(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const row = /** @type {HTMLElement | null} */ (target.closest('.table-row'));
    if (!row)
      return;
    const place = Number(row.dataset.place);
    this.active = place;
    this.drawActive();
    const {branch, expand, open} = this.options;
    const of = branch?.(this.rows[place]);
    if (!target.classList.contains('twist'))
      open?.(this.rows[place]);
    else if (of && of.expanded !== null)
      expand?.(this.rows[place], !of.expanded);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT) - 2);
    const {branch, expand, open} = this.options;
    if (event.target !== this.element || !this.rows.length || event.altKey || event.metaKey)
      return;
    const row = this.rows[this.active];
    const of = branch?.(row);
    switch (event.key) {
    case 'ArrowDown': this.go(this.active + 1); break;
    case 'ArrowUp': this.go(this.active - 1); break;
    case 'PageDown': this.go(this.active + page); break;
    case 'PageUp': this.go(this.active - page); break;
    case 'Home': this.go(0); break;
    case 'End': this.go(this.rows.length - 1); break;
    case 'ArrowRight':
      if (!of)
        return;
      if (of.expanded === false)
        expand?.(row, true);
      else if (of.expanded)
        this.go(this.active + 1);
      break;
    case 'ArrowLeft':
      if (!of)
        return;
      if (of.expanded)
        expand?.(row, false);
      else
        this.goToParent(of.level);
      break;
    case 'Enter': open?.(row); break;
    default: return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {number} level */
  goToParent(level) {
    const {branch} = this.options;
    for (let place = this.active - 1; branch && place >= 0; place--)
      if (branch(this.rows[place]).level < level) {
        this.go(place);
        return;
      }
  }

  /** @returns {string} all rows, in display order */
  tsv() {
    const lines = [this.columns.map(column => tsvCell(column.label)).join('\t')];
    for (const row of this.rows)
      lines.push(this.columns.map(column => tsvCell(column.plain?.(row) ?? column.text(row))).join('\t'));
    return lines.join('\n') + '\n';
  }
}

/** @param {Table} table */
export function copyTableButton(table) {
  return copyButton('Copy', 'Copies all rows as tab-separated values, figures in bytes', () => table.tsv());
}

/**
 * A choice of one of several, all visible.
 * @template {string} Id
 * @param {string} label @param {{id: Id, label: string, title?: string}[]} choices @param {(id: Id) => void} choose
 * @returns {{element: HTMLElement, show: (id: Id) => void, offer: (id: Id, isOffered: boolean) => void}} offer: hides a choice, or shows it
 */
export function segmented(label, choices, choose) {
  const buttons = choices.map(choice => element('button', {
    type: 'button', 'data-id': choice.id, title: choice.title, onclick: () => choose(choice.id),
  }, choice.label));
  return {
    element: element('div', {class: 'segmented', role: 'group', 'aria-label': label}, ...buttons),
    show: id => {
      for (const button of buttons)
        button.setAttribute('aria-pressed', String(button.dataset.id === id));
    },
    offer: (id, isOffered) => {
      for (const button of buttons)
        button.hidden = button.dataset.id === id ? !isOffered : button.hidden;
    },
  };
}
