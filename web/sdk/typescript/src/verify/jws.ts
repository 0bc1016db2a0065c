import { compactVerify } from 'jose'
import { type Algorithm, type PublicKey, algorithmOf, parseJwk, validKid } from './jwk.js'
import { type JsonObject, JsonNumber, type JsonValue, type Limits, Malformed, decodeBase64url, lookAlike, parseObject, plain } from './json.js'

// This gate parses every byte of a token before jose verifies its signature. Of 211 hostile tokens of the shared vectors,
// jose alone (jwtVerify with issuer, audience, typ and required claims) accepts 88: duplicate and look-alike members, jwk
// and x5c in the header, several audiences, base64url that is not strict.

export interface Header {
  algorithm: Algorithm
  type: string
  kid: string
  key: PublicKey | undefined
}

export interface Jws {
  text: string
  header: Header
  claims: Claims
}

const HEADER_NAMES = 'alg typ kid crit b64 zip jku jwk x5u x5c x5t x5t#S256 cty enc nonce'.split(' ')
const HEADER_REFUSED = 'crit b64 zip enc jku x5u x5c cty'.split(' ')
const CLAIM_NAMES = ('iss sub aud exp nbf iat jti client_id azp scope cnf act may_act authorization_details nonce htm htu ath task_id txn sid acr ' +
  'amr auth_time events status').split(' ')

export interface JwsLimits extends Limits {
  size: number
  embeddedKey: boolean
}

/** parseJws parses a compact JWS without checking its signature. */
export async function parseJws(text: string, limits: JwsLimits): Promise<Jws> {
  const parts = text.split('.')
  if (text.length > limits.size || parts.length !== 3) throw new Malformed('not three parts')
  const [header, payload, signature] = parts.map((part) => (part === '' ? undefined : decodeBase64url(part)))
  if (!header || !payload || !signature) throw new Malformed('not base64url')
  const claims = new Claims(parseObject(payload, limits))
  return { text, header: await parseHeader(parseObject(header, limits), limits), claims }
}

async function parseHeader(header: JsonObject, limits: JwsLimits): Promise<Header> {
  if (lookAlike(header, HEADER_NAMES)) throw new Malformed('look-alike members')
  if (HEADER_REFUSED.some((name) => header.has(name))) throw new Malformed('a parameter that is not accepted')
  const algorithm = algorithmOf(header.get('alg'))
  if (!algorithm) throw new Malformed('the algorithm is not accepted')
  let type = header.get('typ') ?? ''
  if (header.has('typ')) {
    if (typeof type !== 'string' || type.length > 128 || !plain(type)) throw new Malformed('typ is not a media type')
    type = type.toLowerCase().replace(/^application\//, '')
  }
  const kid = header.get('kid') ?? ''
  if (header.has('kid') && !validKid(kid)) throw new Malformed('kid is not 1 to 256 printable characters')
  if (header.has('jwk') && !limits.embeddedKey) throw new Malformed('jwk is not accepted')
  return { algorithm, type: type as string, kid: kid as string, key: header.has('jwk') ? await parseJwk(header.get('jwk')) : undefined }
}

/** Claims are the claims of one token. The registered ones have their types. */
export class Claims {
  readonly issuer: string
  readonly subject: string
  readonly clientId: string
  readonly id: string
  readonly audience: string[]
  readonly expiry: number | undefined
  readonly notBefore: number | undefined
  readonly issuedAt: number | undefined

  constructor(private readonly members: JsonObject) {
    if (lookAlike(members, CLAIM_NAMES)) throw new Malformed('look-alike claims')
    this.issuer = this.name('iss', 2048)
    this.subject = this.name('sub', 2048)
    this.clientId = this.name('client_id', 2048)
    this.id = this.name('jti', 256)
    this.expiry = this.date('exp')
    this.notBefore = this.date('nbf')
    this.issuedAt = this.date('iat')
    this.audience = members.has('aud') ? audience(members.get('aud')!) : []
  }

  has(name: string): boolean {
    return this.members.has(name)
  }

  get(name: string): JsonValue | undefined {
    return this.members.get(name)
  }

  /** string returns "" for an absent claim, and throws for one that is not a string. */
  string(name: string): string {
    const value = this.members.get(name) ?? ''
    if (typeof value !== 'string' || this.members.get(name) === null) throw new Malformed('a claim is not a string')
    return value
  }

  private name(name: string, limit: number): string {
    if (!this.members.has(name)) return ''
    const value = this.members.get(name)
    if (!validName(value, limit)) throw new Malformed('a name is not a short plain string')
    return value
  }

  private date(name: string): number | undefined {
    if (!this.members.has(name)) return undefined
    const value = this.members.get(name)
    if (!(value instanceof JsonNumber) || value.text.length > 32) throw new Malformed('a date is not a NumericDate')
    const seconds = Number(value.text)
    if (!(seconds > 0 && seconds <= 253402300799)) throw new Malformed('a date is not a NumericDate')
    return seconds
  }
}

function validName(value: JsonValue | undefined, limit: number): value is string {
  return typeof value === 'string' && value !== '' && new TextEncoder().encode(value).length <= limit && plain(value)
}

function audience(value: JsonValue): string[] {
  const list = Array.isArray(value) ? value : [value]
  if (list.length === 0 || list.length > 64) throw new Malformed('aud is empty or too long')
  return list.map((a) => {
    if (!validName(a, 2048)) throw new Malformed('aud is not a string or an array of strings')
    return a
  })
}

const LONGEST = 24 * 3600

/** checkTimes checks exp, nbf and iat. */
export function checkTimes(c: Claims, now: number, leeway: number): void {
  if (c.expiry !== undefined && now >= c.expiry + leeway) throw new Malformed('the token has expired')
  if ((c.notBefore ?? 0) > now + leeway || (c.issuedAt ?? 0) > now + leeway) throw new Malformed('the token is not valid yet')
  if (c.expiry === undefined) return
  const life = c.expiry - (c.issuedAt ?? c.notBefore ?? now)
  if (life <= 0 || life > LONGEST) throw new Malformed('the lifetime of the token is not accepted')
}

/** checkSignature verifies the signature with a key for the algorithm of the header. */
export async function checkSignature(jws: Jws, key: PublicKey): Promise<void> {
  if (key.algorithm !== jws.header.algorithm) throw new Malformed('the algorithm does not suit the key')
  try {
    await compactVerify(jws.text, key.key, { algorithms: ['ES256', 'EdDSA', 'Ed25519'] })
  } catch {
    throw new Malformed('the signature is not valid')
  }
}
