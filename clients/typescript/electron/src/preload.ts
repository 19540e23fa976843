// The preload script: the only way from the window to the main process, and what may go it.
import { contextBridge, ipcRenderer } from "electron";
import type { CairnBridge, Change } from "./bridge.js";

const bridge: CairnBridge = {
  logIn: (email, password) => ipcRenderer.invoke("cairn:log-in", email, password) as ReturnType<CairnBridge["logIn"]>,
  ask: (message, thread) => ipcRenderer.invoke("cairn:ask", message, thread) as ReturnType<CairnBridge["ask"]>,
  rows: (table) => ipcRenderer.invoke("cairn:rows", table) as ReturnType<CairnBridge["rows"]>,
  follow: (thread) => ipcRenderer.send("cairn:follow", thread),
  onChange(listener) {
    // The event itself stays here: it would hand the window a sender.
    const heard = (_: Electron.IpcRendererEvent, change: Change) => listener(change);
    ipcRenderer.on("cairn:change", heard);
    return () => void ipcRenderer.off("cairn:change", heard);
  },
};

contextBridge.exposeInMainWorld("cairn", bridge);
