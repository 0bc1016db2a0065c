import { type Proof, WINDOW } from './proof.js'

const SLICE = 16 // seconds that one slot covers; dropping a whole slot has a constant cost
const APART = 60 // seconds by which the clocks of two processes may differ

/** Claim is the result of ReplayMemory.claim. */
export type Claim = 'first' | 'used' | 'not covered' | 'busy' | 'full'

interface Slot {
  seen: Set<string>
  keys: Map<string, number>
}

/**
 * ReplayMemory stores the used proofs of this process. It does not know those from before its start: a proof that could
 * have been used then must contain its nonce. It never drops a proof that is still valid.
 */
export class ReplayMemory {
  readonly nonce = crypto.randomUUID()
  private readonly slots = new Map<number, Slot>()
  private count = 0
  private dropped = 0

  constructor(
    private readonly began: number,
    private readonly limit = 200_000,
  ) {}

  /** young reports whether proofs may still need the nonce. */
  young(now: number): boolean {
    return now < this.began + 2 * APART + 2 * WINDOW
  }

  claim(p: Proof, now: number): Claim {
    if (!(p.issuedAt - WINDOW > this.began + APART) && p.nonce !== this.nonce) return 'not covered'
    for (const [end, slot] of this.slots) {
      if (end > now) continue
      this.count -= slot.seen.size
      this.dropped = Math.max(this.dropped, end)
      this.slots.delete(end)
    }
    const end = (Math.floor((p.issuedAt + WINDOW + 1) / SLICE) + 1) * SLICE
    if (end <= this.dropped) return 'used' // perhaps: the clock was set back
    const slot = this.slots.get(end) ?? { seen: new Set(), keys: new Map() }
    if (slot.seen.has(p.replayKey)) return 'used'
    if (this.count >= this.limit) return 'full'
    let mine = 0
    for (const s of this.slots.values()) mine += s.keys.get(p.thumbprint) ?? 0
    if (mine >= this.limit / 4) return 'busy'
    this.slots.set(end, slot)
    slot.seen.add(p.replayKey)
    slot.keys.set(p.thumbprint, (slot.keys.get(p.thumbprint) ?? 0) + 1)
    this.count++
    return 'first'
  }
}
