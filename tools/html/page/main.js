// The page's shell. The payload stands behind this script: a file that was cut still has what can say so.

/** The payload as it stands in the page. */
function payloadText() {
  const element = document.getElementById('payload');
  return element && element.textContent ? element.textContent.trim() : '';
}

document.addEventListener('DOMContentLoaded', () => {
  const page = document.getElementById('page');
  if (page && !payloadText())
    page.textContent = 'This page has no snapshot in it.';
});
