// A storage whose values are sealed with the key that the operating system keeps for this user: tokens lie in it.
import type { Storage } from "@cairnhq/client";
import { safeStorage } from "electron";

/** Seals what it hands on. Where the system has no key store it says so rather than write tokens in the clear. */
export class SealedStorage implements Storage {
  readonly #inner: Storage;

  constructor(inner: Storage) {
    if (!safeStorage.isEncryptionAvailable()) throw new Error("this system keeps no keys: on Linux, install and unlock a keyring");
    this.#inner = inner;
  }

  async get(key: string): Promise<string | null> {
    const sealed = await this.#inner.get(key);
    return sealed === null ? null : open(sealed);
  }

  set(key: string, value: string): Promise<void> | void {
    return this.#inner.set(key, safeStorage.encryptString(value).toString("base64"));
  }

  delete(key: string): Promise<void> | void {
    return this.#inner.delete(key);
  }

  async list(prefix: string): Promise<[string, string][]> {
    return (await this.#inner.list(prefix)).map(([key, sealed]) => [key, open(sealed)]);
  }
}

function open(sealed: string): string {
  return safeStorage.decryptString(Buffer.from(sealed, "base64"));
}
