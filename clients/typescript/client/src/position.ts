// The greatest Position that was seen: what reads must show at least.

/**
 * Remembers the greatest position of an account. A position is opaque, and nothing is made of it but its order: of two of the
 * same account the one that stands further counts. A text of a form that this release does not know takes the place of what
 * is there, as it came later.
 */
export class Positions {
  #text: string | undefined;
  #order: Order | undefined;

  /** The greatest so far, for `min_position`. */
  get current(): string | undefined {
    return this.#text;
  }

  take(text: string | null | undefined): void {
    if (!text) return;
    const order = orderOf(text);
    if (order && this.#order && order.scope === this.#order.scope && order.position < this.#order.position) return;
    this.#text = text;
    this.#order = order;
  }

  /** Forgets it: the account is another, or the log was restored to a state before it. */
  forget(): void {
    this.#text = this.#order = undefined;
  }
}

interface Order {
  scope: string;
  position: number;
}

function orderOf(text: string): Order | undefined {
  try {
    const raw = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const [version, scope, position] = raw.split("|");
    if (version !== "1" || !scope || !position || !/^\d+$/.test(position)) return undefined;
    return { scope, position: Number(position) };
  } catch {
    return undefined;
  }
}
