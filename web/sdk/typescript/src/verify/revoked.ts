/** Event is one event of the revocation feed. */
export interface Event {
  id: string // of a lease, or of a task
  at: number // time of the event, NaN = not known
  until: number // the time after which the event may be dropped
}

const SLACK = 300 // seconds for which entries are kept longer than needed, because clocks differ
const LEEWAY = 5

/** RevokedSet holds the revoked tasks and leases, and the age of that information. */
export class RevokedSet {
  private readonly until = new Map<string, number>()
  private fresh = -1 // request time of the last complete response
  private steady = 0 // the same by a clock that is never set
  private bound = Infinity
  private floor = 0

  constructor(private readonly limit = 200_000) {}

  /**
   * add takes events that were received at now. steady is a clock that is never set. It measures how long an entry is
   * kept, the difference of the two times of its event: a wall clock that jumps ahead must not drop revocations.
   */
  add(events: readonly Event[], now: number, steady: number): void {
    for (const [id, end] of this.until) if (end <= steady) this.until.delete(id)
    for (const e of events) {
      const end = steady + Math.max(0, e.until - (Number.isNaN(e.at) ? now : e.at)) + SLACK
      this.until.set(e.id, Math.max(end, this.until.get(e.id) ?? 0))
      if (this.until.size <= this.limit) continue
      // The dropped entries concern tokens issued before now. Refusing all of those loses no revocation.
      this.until.clear()
      this.until.set(e.id, end)
      this.floor = Math.max(this.floor, now + LEEWAY)
    }
  }

  /** complete records that the feed was read to its end by a response requested at asked. */
  complete(asked: number, steady: number, bound: number): void {
    this.fresh = asked
    this.steady = steady
    this.bound = bound > 0 ? bound : Infinity
  }

  /** known reports whether the set is recent enough. */
  known(now: number, steady: number, staleness: number): boolean {
    const age = now - this.fresh // negative when the clock was set back
    return this.fresh >= 0 && age >= 0 && Math.max(age, steady - this.steady) <= Math.min(staleness, this.bound)
  }

  has(ids: readonly string[], issuedAt: number): boolean {
    return issuedAt <= this.floor || ids.some((id) => this.until.has(id))
  }
}
