/**
 * Elements. Inserts every text as text: names in a snapshot can be anything, and none must be parsed as
 * HTML.
 */

/**
 * @param {string} tag @param {Record<string, any>} attributes "class", "title" ...; on* are listeners
 * @param {...(Node | string | number | null | undefined | false)} children @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on'))
      made.addEventListener(name.slice(2), value);
    else if (value === true)
      made.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined)
      made.setAttribute(name, String(value));
  }
  append(made, ...children);
  return made;
}

/** @param {HTMLElement} parent @param {...(Node | string | number | null | undefined | false)} children */
export function append(parent, ...children) {
  for (const child of children)
    if (child !== null && child !== undefined && child !== false)
      parent.append(typeof child === 'number' ? String(child) : child);
}

/** @param {HTMLElement} parent @param {...(Node | string | number | null | undefined | false)} children */
export function replace(parent, ...children) {
  parent.replaceChildren();
  append(parent, ...children);
}

/** @param {string} text @param {() => void} press @param {Record<string, any>} attributes @returns {HTMLElement} a small button */
export function button(text, press, attributes = {}) {
  return element('button', {class: 'small', onclick: press, ...attributes}, text);
}

/** @param {string} className @param {[string, string][]} rows name and value; without those that have no value @returns {HTMLElement} */
export function nameList(className, rows) {
  return element('dl', {class: className}, ...rows.filter(([, value]) => value).map(([name, value]) =>
    element('div', {}, element('dt', {}, name), element('dd', {}, value))));
}

/**
 * Cuts long names in the middle, their least informative part.
 * @param {string} text @param {number} most @returns {string}
 */
export function shorten(text, most) {
  if (text.length <= most)
    return text;
  const tail = Math.floor(most / 3);
  return text.slice(0, most - tail - 1) + '…' + text.slice(text.length - tail);
}
