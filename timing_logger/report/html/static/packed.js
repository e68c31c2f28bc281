// Arrays as _tables.py leaves them in the page: little-endian, deflated, in base64.

const ARRAYS = {
  float64: Float64Array, float32: Float32Array, uint32: Uint32Array, int32: Int32Array, uint16: Uint16Array,
};

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.deflated), (character) => character.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new ARRAYS[packed.dtype](await new Response(inflated).arrayBuffer());
}

function pageData() {
  return JSON.parse(document.getElementById("data").textContent);
}
