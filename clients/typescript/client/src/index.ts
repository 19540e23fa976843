export * from "./storage.js";
export * from "./clock.js";
export * from "./frames.js";
export * from "./device.js";
