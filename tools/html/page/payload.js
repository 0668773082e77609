/** Reads the data that the tool put into the page (doc/html.md): base64 of a zlib stream with a JSON header and columns of numbers. */

/** An error in the data, as a sentence for the user. */
export class PageError extends Error {}

/** @param {string} why */
function damaged(why) {
  return new PageError(`The data in this page is damaged: ${why}`);
}

/** @typedef {{name: string, encoding: string, array: string, count: number, bytes: number}} ColumnEntry */

const MAGIC = 'GPPAGE1\n';
/** @type {Record<string, new (count: number) => Numbers>} */
const ARRAYS = {f64: Float64Array, u32: Uint32Array, i32: Int32Array, u8: Uint8Array};

/** @param {string} text base64 */
function bytesOf(text) {
  let binary;
  try {
    binary = atob(text);
  } catch (error) {
    throw damaged('it is not what base64 looks like. The file was cut or changed.');
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++)
    bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** @param {Uint8Array} bytes */
async function inflate(bytes) {
  if (typeof DecompressionStream !== 'function')
    throw new PageError('This browser is too old for this page, which needs DecompressionStream: Chrome or Edge 111, Firefox 113, Safari 16.4, or later.');
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch (error) {
    throw damaged('it cannot be unpacked. The file was cut or changed.');
  }
}

/** @param {Uint8Array} bytes @param {number} at where the column begins @param {ColumnEntry} entry @returns {Numbers} */
function readColumn(bytes, at, entry) {
  const end = at + entry.bytes;
  if (end > bytes.length || entry.count > entry.bytes)
    throw damaged(`column ${entry.name} ends too early.`);
  if (!Object.hasOwn(ARRAYS, entry.array))
    throw new PageError(`The data in this page has numbers of a kind "${entry.array}", which this page does not know.`);
  const numbers = new ARRAYS[entry.array](entry.count);
  if (entry.encoding === 'byte') {
    numbers.set(bytes.subarray(at, at + entry.count));
    return numbers;
  }
  const isDelta = entry.encoding === 'delta';
  let last = 0;
  for (let i = 0; i < entry.count; i++) {
    let byte = bytes[at++];
    let value = byte & 0x7f;
    let factor = 128;
    while (byte >= 0x80) { /* sums of doubles: exact below 2^53, and for even numbers above */
      byte = bytes[at++];
      value += (byte & 0x7f) * factor;
      factor *= 128;
    }
    if (isDelta) {
      last += value % 2 ? -(value + 1) / 2 : value / 2;
      value = last;
    }
    numbers[i] = value;
  }
  if (at !== end)
    throw damaged(`column ${entry.name} has another length than it says.`);
  return numbers;
}

/** @param {string} text base64 */
export async function readPayload(text) {
  if (!text)
    throw new PageError('This page has no data: the file was cut.');
  const bytes = await inflate(bytesOf(text));
  const view = new DataView(bytes.buffer);
  const decoder = new TextDecoder();
  if (bytes.length < MAGIC.length + 4 || decoder.decode(bytes.subarray(0, MAGIC.length)) !== MAGIC)
    throw damaged('it does not begin as it should.');
  const length = view.getUint32(MAGIC.length, true);
  let at = MAGIC.length + 4 + length;
  let header;
  try {
    header = JSON.parse(decoder.decode(bytes.subarray(MAGIC.length + 4, at)));
  } catch (error) {
    throw damaged('its header cannot be read.');
  }
  if (!header || header.format !== 'gpupool-page' || !Array.isArray(header.files) || !header.files.length)
    throw damaged('its header is not that of a page.');
  const files = [];
  for (const file of header.files) {
    /** @type {Map<string, Numbers>} */
    const columns = new Map();
    for (const entry of file.columns) {
      columns.set(entry.name, readColumn(bytes, at, entry));
      at += entry.bytes;
    }
    files.push({header: file, columns});
  }
  if (at !== bytes.length)
    throw damaged('it has another length than its header says.');
  return {generator: header.generator, files};
}
