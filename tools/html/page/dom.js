/** Elements. All text is inserted as text, because names in a snapshot must never be parsed as HTML. */

/**
 * @param {string} tag @param {Record<string, any>} attributes "class", "title" ...; on* are listeners
 * @param {...Child} children
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on'))
      made.addEventListener(name.slice(2), value);
    else if ((value ?? false) !== false)
      made.setAttribute(name, value === true ? '' : value);
  }
  replace(made, ...children);
  return made;
}

/** @param {HTMLElement} parent @param {...Child} children */
export function replace(parent, ...children) {
  parent.replaceChildren(.../** @type {(Node | string)[]} */ (children.filter(Boolean)));
}

/** @param {string} text @param {() => void} press @param {Record<string, any>} attributes */
export function button(text, press, attributes = {}) {
  return element('button', {class: 'small', onclick: press, ...attributes}, text);
}

/** @param {string} className @param {[string, string][]} rows name and value; rows without a value are left out */
export function nameList(className, rows) {
  return element('dl', {class: className}, ...rows.filter(([, value]) => value).map(([name, value]) =>
    element('div', {}, element('dt', {}, name), element('dd', {}, value))));
}

/**
 * Cuts long names in the middle, their least informative part.
 * @param {string} text @param {number} most
 */
export function shorten(text, most) {
  if (text.length <= most)
    return text;
  const tail = Math.floor(most / 3);
  return text.slice(0, most - tail - 1) + '…' + text.slice(text.length - tail);
}
