import { limitedText } from '../http.js'
import type { Header } from './jws.js'
import { type PublicKey, parseJwks } from './jwk.js'
import { Malformed } from './json.js'

const BACKOFF = 10 // seconds between two fetches caused by tokens, so that strangers cannot cause more
const TIMEOUT = 3000

/** KeySource holds the issuer's keys: the last good set, also while later fetches fail. */
export class KeySource {
  /** generation grows with every change of the set. */
  generation = 0
  private keys: PublicKey[] | undefined
  private text = ''
  private began = -Infinity
  private fetching: Promise<Error | undefined> | undefined
  private failed: Error | undefined

  constructor(
    private readonly url: string,
    private readonly fetch: typeof globalThis.fetch,
  ) {}

  get loaded(): boolean {
    return this.keys !== undefined
  }

  /** find throws Malformed for an unknown key, and another error when the keys cannot be read. */
  async find(h: Header, now: number): Promise<PublicKey> {
    const known = this.select(h)
    if (known) return known
    const failed = await this.refresh(now, BACKOFF)
    const renewed = this.select(h)
    if (renewed) return renewed
    if (failed || !this.keys) throw failed ?? new Error('the keys of the issuer were never read')
    throw new Malformed('the token names a key that its issuer does not publish')
  }

  private select(h: Header): PublicKey | undefined {
    const found = (this.keys ?? []).filter((k) => k.algorithm === h.algorithm && (h.kid === '' || h.kid === k.kid))
    if (found.length > 1) throw new Malformed('the token must name one of several keys')
    return found[0]
  }

  /** refresh fetches the keys, unless a fetch began less than least seconds ago, and returns the error of the last fetch. */
  async refresh(now: number, least: number): Promise<Error | undefined> {
    if (this.fetching) return this.fetching
    if (now - this.began >= 0 && now - this.began < least) return this.failed
    this.began = now
    this.fetching = this.read().then(
      () => undefined,
      // Not a Malformed, which would be the fault of the token.
      (cause: unknown) => new Error('the keys of the issuer cannot be read', { cause }),
    )
    this.failed = await this.fetching
    this.fetching = undefined
    return this.failed
  }

  private async read(): Promise<void> {
    const response = await this.fetch(this.url, { redirect: 'manual', signal: AbortSignal.timeout(TIMEOUT) })
    if (response.status !== 200) throw new Error(`the keys of the issuer: status ${response.status}`)
    const text = await limitedText(response, 256 << 10)
    if (text === undefined) throw new Error('the keys of the issuer are too large')
    if (this.keys && text === this.text) return
    const keys = await parseJwks(new TextEncoder().encode(text))
    if (keys.length === 0) throw new Error('the issuer published no key; the previous keys stay in use')
    this.keys = keys
    this.text = text
    this.generation++
  }
}
