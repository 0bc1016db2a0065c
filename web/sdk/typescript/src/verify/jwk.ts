import { importJWK } from 'jose'
import { type JsonObject, type JsonValue, Malformed, decodeBase64url, lookAlike, parseObject, sha256, within } from './json.js'

/** Algorithm has both names of Ed25519: EdDSA of RFC 8037 and Ed25519 of RFC 9864. They include each other. */
export type Algorithm = 'ES256' | 'EdDSA'

/** algorithmOf returns undefined for every algorithm that is not accepted. */
export function algorithmOf(name: JsonValue | undefined): Algorithm | undefined {
  if (name === 'ES256' || name === 'EdDSA') return name
  return name === 'Ed25519' ? 'EdDSA' : undefined
}

/** PublicKey verifies signatures. */
export interface PublicKey {
  algorithm: Algorithm
  kid: string
  key: CryptoKey
  thumbprint: string
}

const NAMES = 'kty crv x y n e d p q dp dq qi oth k priv kid alg use key_ops'.split(' ')
const PRIVATE = 'd p q dp dq qi oth k priv'.split(' ')

class PrivateKeyShown extends Malformed {}

/** parseJwk accepts public keys for signatures on P-256 and Ed25519 only. */
export async function parseJwk(value: JsonValue | undefined): Promise<PublicKey> {
  if (!(value instanceof Map) || !within(value, { depth: 4, members: 64 }) || lookAlike(value, NAMES)) throw new Malformed('the JWK is not a strict object')
  if (PRIVATE.some((name) => value.has(name))) throw new PrivateKeyShown('the JWK has private members')
  const x = coordinate(value, 'x')
  let algorithm: Algorithm
  let core: { kty: string; crv: string; x: string; y?: string }
  if (value.get('kty') === 'EC' && value.get('crv') === 'P-256') {
    algorithm = 'ES256'
    core = { crv: 'P-256', kty: 'EC', x, y: coordinate(value, 'y') }
  } else if (value.get('kty') === 'OKP' && value.get('crv') === 'Ed25519' && strongEd25519(x)) {
    algorithm = 'EdDSA'
    core = { crv: 'Ed25519', kty: 'OKP', x }
  } else {
    throw new Malformed('the key is neither P-256 nor Ed25519')
  }
  const kid = labels(value, algorithm)
  let key: CryptoKey | Uint8Array
  try {
    key = await importJWK(core, algorithm) // refuses points that are not on the curve
  } catch {
    throw new Malformed('the JWK is not a point on its curve')
  }
  if (key instanceof Uint8Array) throw new Malformed('the JWK is symmetric')
  // The members of core are in the order of RFC 7638.
  return { algorithm, kid, key, thumbprint: await sha256(JSON.stringify(core)) }
}

function coordinate(jwk: JsonObject, name: string): string {
  const text = jwk.get(name)
  if (typeof text !== 'string' || decodeBase64url(text)?.length !== 32) throw new Malformed('a coordinate of the JWK is not 32 bytes')
  return text
}

function labels(jwk: JsonObject, algorithm: Algorithm): string {
  const ops = jwk.get('key_ops')
  if (jwk.has('use') && jwk.get('use') !== 'sig') throw new Malformed('the JWK is not for signatures')
  if (ops !== undefined && !(Array.isArray(ops) && ops.every((op) => typeof op === 'string') && ops.includes('verify'))) throw new Malformed('the JWK is not for verifying')
  if (jwk.has('alg') && algorithmOf(jwk.get('alg')) !== algorithm) throw new Malformed('the JWK has an alg that its type does not support')
  const kid = jwk.get('kid')
  if (kid === undefined) return ''
  if (!validKid(kid)) throw new Malformed('the kid of the JWK is not 1 to 256 printable characters')
  return kid
}

export function validKid(kid: JsonValue): kid is string {
  return typeof kid === 'string' && /^[\x20-\x7e]{1,256}$/.test(kid)
}

const FIELD = (1n << 255n) - 19n
// The y coordinates of all points whose order divides 8. A signature for such a key needs no private key.
const SMALL_ORDER = [
  1n,
  FIELD - 1n,
  0n,
  0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n,
]

function strongEd25519(x: string): boolean {
  const bytes = (decodeBase64url(x) ?? new Uint8Array(32)).reverse() // RFC 8032 section 3: little-endian
  let y = 0n
  for (const b of bytes) y = (y << 8n) | BigInt(b)
  y &= (1n << 255n) - 1n // without the sign of x
  return y < FIELD && !SMALL_ORDER.includes(y)
}

/** parseJwks skips keys of other types. A private key, and a kid that occurs twice, make the whole set invalid. */
export async function parseJwks(text: Uint8Array): Promise<PublicKey[]> {
  if (text.length > 256 << 10) throw new Malformed('the JWK set is too large')
  const set = parseObject(text, { depth: 6, members: 3200 })
  const list = set.get('keys')
  if (lookAlike(set, ['keys']) || !Array.isArray(list) || list.length > 100) throw new Malformed('the JWK set has no array of keys')
  const keys: PublicKey[] = []
  for (const jwk of list) {
    try {
      keys.push(await parseJwk(jwk))
    } catch (error) {
      if (error instanceof PrivateKeyShown || !(error instanceof Malformed)) throw error
    }
  }
  const kids = keys.map((k) => k.kid).filter((kid) => kid !== '')
  if (new Set(kids).size < kids.length) throw new Malformed('two keys have the same kid')
  return keys
}
