import { type Connection, baseUrl, loopback, sleep } from '../http.js'
import { type Identity, Principal } from '../principal.js'
import { VerifyError, doubt } from './error.js'
import { CursorUnknown, nextPage } from './feed.js'
import { type Claims, type Jws, checkSignature, checkTimes, parseJws } from './jws.js'
import { Malformed, decodeBase64url, sha256 } from './json.js'
import { KeySource } from './keys.js'
import { type Proof, checkProof } from './proof.js'
import { ReplayMemory } from './replay.js'
import { RevokedSet } from './revoked.js'
import { covers, parseScopes } from './scope.js'

/** Incoming is a request as the server received it: several headers of one name are several values. */
export interface Incoming {
  method: string
  /** target is the path with the query, as sent: not normalized by a URL parser. */
  target: string
  authorization: readonly string[]
  dpop: readonly string[]
}

/** Config configures a Verifier. clientId and key are those of a principal with the role resource_server. */
export interface Config extends Connection, Identity {
  /** resource is this server's own resource URI: the only aud that it accepts. */
  resource: string
  /** publicUrl is this server's base URL for clients, which proofs contain. Default: the origin of resource. The Host header is never used. */
  publicUrl?: string
  /** scope returns the scopes that a request needs. "" denies. */
  scope: string | ((r: Incoming) => string)
  /** maxStalenessSeconds is the longest time for which a revoked token can still pass. Default 10, at least 3. */
  maxStalenessSeconds?: number
  /** upSince is when this server began to store proofs, in milliseconds; only for a memory that outlives the Verifier. */
  upSince?: number
  /** failed is called with every failure of the feed and of the keys, for logs. */
  failed?: (error: unknown) => void
}

/** Token is a verified access token. */
export interface Token {
  leaseId: string
  taskId: string
  subject: string
  clientId: string
  scope: string
  jkt: string
  expiresAt: Date
}

interface Checked extends Token {
  ids: string[] // tasks and leases that end this token
  issuedAt: number
  generation: number
}

const LEEWAY = 5
// Encoded unreserved characters: scope sees the path as sent, and a router that decodes it finds another route.
const NEEDLESS = /%(2[DEde]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee])/
const CACHE = 4096
const JWKS_EVERY = 300

/** Verifier verifies requests with ebb's access tokens. Until it has read the feed once, it refuses all with 503. */
export class Verifier {
  readonly resource: string
  readonly issuer: string
  private readonly config: Config
  private readonly publicUrl: string
  private readonly staleness: number
  private readonly principal: Principal
  private readonly keys: KeySource
  private readonly replay: ReplayMemory
  private readonly revoked = new RevokedSet()
  private readonly cache = new Map<string, Checked>()
  private cursor = ''
  private bound = 0

  constructor(config: Config) {
    this.config = config
    this.principal = new Principal(config)
    this.issuer = this.principal.peer.issuer
    this.resource = config.resource
    const resource = new URL(config.resource)
    if (/[#"]/.test(config.resource) || !(resource.protocol === 'https:' || (resource.protocol === 'http:' && loopback(resource)))) {
      throw new TypeError('resource must be an https URL without fragment and quotes (http only on loopback)')
    }
    if (typeof config.scope === 'string' && parseScopes(config.scope).length === 0) throw new TypeError('scope is required: name the scopes that requests need')
    this.publicUrl = config.publicUrl === undefined ? resource.origin : baseUrl('publicUrl', config.publicUrl)
    this.staleness = config.maxStalenessSeconds ?? 10
    if (!(this.staleness >= 3)) throw new TypeError(`maxStalenessSeconds must be 3 or more; got ${this.staleness}`)
    this.keys = new KeySource(this.principal.peer.base + '/.well-known/jwks.json', this.principal.peer.fetch)
    this.replay = new ReplayMemory((config.upSince ?? this.principal.peer.now()) / 1000)
  }

  /** verify returns the token of a request, or throws a VerifyError. */
  async verify(r: Incoming): Promise<Token> {
    const { token: raw, dpop } = present(r)
    if (typeof this.config.scope !== 'string' && NEEDLESS.test(r.target.split(/[?#]/, 1)[0]!)) {
      throw new VerifyError('invalid_request', 'The path encodes characters that need no encoding (RFC 3986 section 2.3).')
    }
    const now = this.now()
    const token = await this.token(raw, now)
    if (!dpop) throw new VerifyError('invalid_token', 'The access token is bound to a DPoP key: send it with the scheme DPoP and a proof.')
    await this.possession(r, raw, token, now)
    // As late as possible, so that revocations received while the proof was checked count.
    if (!this.revoked.known(this.now(), steady(), this.staleness)) throw doubt('The revocation state of the access token is not known at the moment. Try again in 2 s.')
    if (this.revoked.has(token.ids, token.issuedAt)) throw new VerifyError('invalid_token', 'The access token was revoked or its task is complete.')
    const need = typeof this.config.scope === 'string' ? this.config.scope : this.config.scope(r)
    if (need === '' || !covers(token.scope, need)) {
      throw new VerifyError('insufficient_scope', 'The scope of the access token does not cover this request.', { scope: need })
    }
    const { leaseId, taskId, subject, clientId, scope, jkt, expiresAt } = token
    return { leaseId, taskId, subject, clientId, scope, jkt, expiresAt }
  }

  private now(): number {
    return this.principal.peer.now() / 1000
  }

  private async token(raw: string, now: number): Promise<Checked> {
    const id = await sha256(raw)
    const known = this.cache.get(id)
    if (known && known.generation === this.keys.generation && now < known.expiresAt.getTime() / 1000 && known.issuedAt <= now + LEEWAY) return known
    this.cache.delete(id)
    let checked: Checked
    try {
      const jws = await parseJws(raw, { size: 8 << 10, depth: 16, members: 256, embeddedKey: false })
      this.profile(jws, now)
      const key = await this.keys.find(jws.header, now)
      const generation = this.keys.generation
      await checkSignature(jws, key)
      checked = { ...this.claims(jws.claims, now), generation }
    } catch (cause) {
      if (cause instanceof Malformed) throw new VerifyError('invalid_token', 'The access token was refused.', { cause })
      throw doubt('The keys of the issuer are not available at the moment. Try again in 2 s.', cause)
    }
    if (this.cache.size >= CACHE) this.cache.delete(this.cache.keys().next().value!)
    this.cache.set(id, checked)
    return checked
  }

  /** profile does all checks that need no key. */
  private profile(jws: Jws, now: number): void {
    const c = jws.claims
    if (jws.header.type !== 'at+jwt' || c.issuer !== this.issuer || c.audience.length !== 1 || c.audience[0] !== this.resource) throw new Malformed('the token is for another purpose')
    checkTimes(c, now, LEEWAY)
  }

  /** claims requires all claims of RFC 9068 section 2.2, one confirmation key, and the task. */
  private claims(c: Claims, now: number): Omit<Checked, 'generation'> {
    const taskId = c.string(this.issuer + '/claims/task_id')
    const ids = [taskId, c.id]
    for (const name of ['ancestors', 'parents']) ids.push(...c.string(`${this.issuer}/claims/${name}`).split(/\s+/).filter(Boolean))
    const scope = c.string('scope')
    parseScopes(scope)
    if ([c.id, c.subject, c.clientId, taskId].includes('') || c.issuedAt === undefined || c.expiry === undefined) throw new Malformed('a required claim is missing')
    if (now >= c.expiry) throw new Malformed('the token has expired') // the leeway is for times in the future
    return {
      leaseId: c.id, taskId, subject: c.subject, clientId: c.clientId, scope, jkt: confirmation(c), expiresAt: new Date(c.expiry * 1000), ids, issuedAt: c.issuedAt,
    }
  }

  private async possession(r: Incoming, raw: string, token: Token, now: number): Promise<void> {
    const path = r.target.split(/[?#]/, 1)[0]!
    let proof: Proof
    try {
      if (path !== '' && !path.startsWith('/')) throw new Malformed('the target of the request is not a path') // it would continue the host name
      proof = await checkProof(r.dpop, r.method, this.publicUrl + path, raw, now)
    } catch (cause) {
      if (!(cause instanceof Malformed)) throw cause
      throw new VerifyError('invalid_dpop_proof', 'The DPoP proof was refused.', { cause })
    }
    // Before the claim: an attacker must not use up a proof that the holder still needs.
    if (proof.thumbprint !== token.jkt) throw new VerifyError('invalid_token', 'The access token is bound to another key than that of the DPoP proof.')
    switch (this.replay.claim(proof, now)) {
      case 'used':
        throw new VerifyError('invalid_dpop_proof', 'The DPoP proof was used before. Make a new one for each request.')
      case 'not covered':
        throw new VerifyError('use_dpop_nonce', 'This server has just started. Make a new proof with the nonce of the DPoP-Nonce header.')
      case 'busy':
        throw new VerifyError('', 'Too many requests with one key. Slow down.', { status: 429, retryAfterSeconds: 10 })
      case 'full':
        throw doubt('Replayed DPoP proofs cannot be detected at the moment. Try again in 2 s.')
    }
  }

  /** nonce returns the nonce for the client's next proof, "" for none: only shortly after the start. */
  nonce(): string {
    return this.replay.young(this.now()) ? this.replay.nonce : ''
  }

  /** ready reports whether requests can be verified now. */
  ready(): boolean {
    return this.keys.loaded && this.revoked.known(this.now(), steady(), this.staleness)
  }

  /** poll reads the feed to its end, and the keys when they are missing. It returns the number of events. Servers call start() instead. */
  async poll(options: { waitSeconds?: number; signal?: AbortSignal } = {}): Promise<number> {
    let events = 0
    if (!this.keys.loaded) {
      const failed = await this.keys.refresh(this.now(), 1)
      if (failed) this.config.failed?.(failed)
    }
    for (let wait = options.waitSeconds ?? 0; ; wait = 0) {
      const asked = this.now()
      const askedSteady = steady()
      // A connection that is dead without notice must not outlast the staleness.
      const limit = AbortSignal.timeout((wait + this.staleness / 2) * 1000)
      try {
        const page = await nextPage(this.principal, this.resource, this.cursor, wait, options.signal ? AbortSignal.any([options.signal, limit]) : limit)
        this.revoked.add(page.events, this.now(), steady())
        this.cursor = page.cursor
        events += page.events.length
        if (page.full) continue
        this.bound = page.maxAgeSeconds
        this.revoked.complete(asked, askedSteady, page.maxAgeSeconds)
        return events
      } catch (error) {
        if (error instanceof CursorUnknown) this.cursor = '' // the revoked set stays; the feed is read from its start
        throw error
      }
    }
  }

  /** start follows the feed and the keys until the signal aborts. */
  async start(signal = new AbortController().signal): Promise<void> {
    let pause = 0
    let keysAt = this.now()
    for (let wait = 0; !signal.aborted; ) {
      const asked = this.now()
      try {
        const events = await this.poll({ waitSeconds: wait, signal })
        pause = events === 0 && this.now() - asked < wait / 2 ? wait / 2 : 0 // not busy with a feed that does not wait
        // Two waits and a round trip must fit into the staleness, which counts from the request.
        wait = Math.min(this.staleness, this.bound || Infinity) / 3
      } catch (error) {
        if (signal.aborted) return
        this.config.failed?.(error)
        pause = Math.min(Math.max(2 * pause, 0.25), this.staleness / 3)
        wait = 0
      }
      if (this.now() - keysAt >= JWKS_EVERY) {
        keysAt = this.now()
        const failed = await this.keys.refresh(keysAt, 1)
        if (failed) this.config.failed?.(failed)
      }
      await sleep(pause, signal).catch(() => {}) // aborted: the loop ends
    }
  }
}

// steady is a clock that is never set.
const steady = () => performance.now() / 1000

/** present reads the token from the Authorization header only. */
function present(r: Incoming): { token: string; dpop: boolean } {
  const query = r.target.slice((r.target + '?').indexOf('?') + 1)
  if (new URLSearchParams(query).has('access_token')) throw new VerifyError('invalid_request', 'Send the access token in the Authorization header, never in the URL.')
  const [value] = r.authorization
  if (value === undefined) throw new VerifyError('', 'Send an access token.')
  if (r.authorization.length > 1) throw new VerifyError('invalid_request', 'Send one Authorization header.')
  const space = value.indexOf(' ')
  const scheme = (space < 0 ? value : value.slice(0, space)).toLowerCase()
  const token = space < 0 ? '' : value.slice(space).replace(/^ +| +$/g, '')
  if (scheme !== 'dpop' && scheme !== 'bearer') throw new VerifyError('', 'Send an access token with the scheme DPoP.')
  if (!/^[A-Za-z0-9._~+/-]+=*$/.test(token)) throw new VerifyError('invalid_request', 'The Authorization header is not one scheme and one token.')
  return { token, dpop: scheme === 'dpop' }
}

/** confirmation returns the jkt of a token that is bound to exactly this key. */
function confirmation(c: Claims): string {
  const cnf = c.get('cnf')
  const jkt = cnf instanceof Map && cnf.size === 1 ? cnf.get('jkt') : undefined
  if (typeof jkt !== 'string' || decodeBase64url(jkt)?.length !== 32) throw new Malformed('the token is not bound to exactly one DPoP key')
  return jkt
}
