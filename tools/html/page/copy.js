import {element} from './dom.js';

/** @param {string} text */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch (error) { /* this browser has no clipboard for files */
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    const area = /** @type {HTMLTextAreaElement} */ (element('textarea', {class: 'unseen', 'aria-hidden': 'true'}));
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand('copy');
    area.remove();
    before?.focus();
    return isCopied;
  }
}

/**
 * @param {string} label @param {string} title @param {() => string} text
 * @param {(text: string) => void} [refused] the browser did not copy it; default: the button says so
 */
export function copyButton(label, title, text, refused) {
  const button = element('button', {
    type: 'button', class: 'copy', title, onclick: async () => {
      const copied = text();
      const isCopied = await copyText(copied);
      if (!isCopied && refused) {
        refused(copied);
        return;
      }
      button.textContent = isCopied ? 'Copied' : 'The browser refused';
      setTimeout(() => {
        button.textContent = label;
      }, 1500);
    },
  }, label);
  return button;
}
