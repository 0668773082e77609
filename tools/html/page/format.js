/** Formats numbers exactly like the tool (tools/output.c, base/size.c), so that page and terminal agree. */
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

/** @param {number} bytes @returns {string} "97.7 KiB" */
export function formatBytes(bytes) {
  let unit = 0;
  let one = 1;
  if (bytes < 0)
    return '-' + formatBytes(-bytes);
  while (unit < 6 && bytes >= one * 1024) {
    one *= 1024;
    unit++;
  }
  let whole = Math.floor(bytes / one);
  const rest = bytes - whole * one;
  if (rest === 0)
    return `${whole} ${UNITS[unit]}`;
  let tenths = Math.floor((Math.floor(rest / (unit > 1 ? one / 1024 : 1)) * 10 + 512) / 1024);
  if (tenths === 10) {
    whole++;
    tenths = 0;
  }
  return `${whole}.${tenths} ${UNITS[unit]}`;
}

/** @param {number} count @returns {string} "8,255" */
export function formatCount(count) {
  return String(count).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** @param {number} ns @returns {string} "1.23 ms" */
export function formatDuration(ns) {
  if (ns < 1000)
    return `${Math.round(ns)} ns`;
  const units = /** @type {[number, number, string][]} */ ([[1e6, 1e3, 'us'], [1e9, 1e6, 'ms'], [120e9, 1e9, 's']]);
  for (const [below, unit, name] of units) {
    const value = ns / unit;
    if (ns < below)
      return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${name}`;
  }
  const seconds = Math.floor(ns / 1e9);
  if (seconds < 7200)
    return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
}

/** @param {number} ratio 0 to 1 @returns {string} "99.2%" */
export function formatPercent(ratio) {
  const percent = ratio * 100;
  if (ratio > 0 && percent < 0.1)
    return '<0.1%';
  if (ratio < 1 && percent > 99.9)
    return '99.9%';
  return percent === 0 || percent === 100 ? `${percent}%` : `${percent.toFixed(1)}%`;
}

/** @param {number} count @param {string} noun @returns {string} "1 block", "8,255 blocks" */
export function formatPlural(count, noun) {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** @param {number} address @returns {string} "0x7f0000000000" */
export function formatAddress(address) {
  return '0x' + address.toString(16);
}

/** @param {string} path @returns {string} without its folders */
export function baseName(path) {
  return path.slice(path.lastIndexOf('/') + 1);
}
