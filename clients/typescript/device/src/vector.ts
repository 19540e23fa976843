// A vector in a frame and in the file.
import { type Call, CallError } from "./call.js";

/** A call's vector. */
export function vectorOf(call: Call): Float32Array {
  const { vector } = call;
  if (!Array.isArray(vector) || vector.length === 0) throw new CallError(`${call.action} needs a vector`);
  if (!vector.every((n) => typeof n === "number" && Number.isFinite(Math.fround(n)))) throw new CallError("the vector has something in it that is no 32-bit number");
  return Float32Array.from(vector as number[]);
}

/** 32-bit floats, little endian. */
export function packed(vector: Float32Array): Buffer {
  const bytes = Buffer.alloc(4 * vector.length);
  vector.forEach((n, i) => bytes.writeFloatLE(n, 4 * i));
  return bytes;
}

export function unpacked(bytes: Buffer): Float32Array {
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
}
