// A binary frame: uint32 length of the head, the head as UTF-8 JSON, zero bytes up to a multiple of 8,
// then the bytes. The bytes are a view into the message, never a copy.

export function decodeFrame(buffer: ArrayBuffer): { head: Record<string, unknown>; bytes: Uint8Array } {
  if (buffer.byteLength < 4) throw new Error("The frame is too short to have a head.");
  const length = new DataView(buffer).getUint32(0, true);
  if (4 + length > buffer.byteLength) throw new Error("The frame's head is longer than the frame.");
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const start = Math.min(Math.ceil((4 + length) / 8) * 8, buffer.byteLength);
  return { head, bytes: new Uint8Array(buffer, start) };
}

export function asUint32(bytes: Uint8Array): Uint32Array {
  return bytes.byteOffset % 4 === 0
    ? new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 2)
    : new Uint32Array(bytes.slice().buffer);
}

export function asFloat32(bytes: Uint8Array): Float32Array {
  const words = asUint32(bytes);
  return new Float32Array(words.buffer, words.byteOffset, words.length);
}
