// @cairnhq/device: the reference device. `openDevice` gives an executor and a storage for createClient of @cairnhq/client.
export { openDevice, type OpenOptions, type OpenDevice } from "./open.js";
export { Executor, type ExecutorOptions } from "./executor.js";
export { Store } from "./store.js";
export { SqliteStorage } from "./storage.js";
export { Vectors, type Nearest } from "./vectors.js";
export { CallError, type Row } from "./call.js";
