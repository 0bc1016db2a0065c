import { SignJWT } from 'jose'
import type { Key } from './key.js'
import { sha256 } from './verify/json.js'

/**
 * normalHtu converts a URL to the form in which htu is compared (RFC 9449 section 4.3): scheme and host in lower case,
 * without default port, query and fragment. The path is unchanged. It returns undefined for a URL that is not absolute.
 */
export function normalHtu(raw: string): string | undefined {
  if (raw.length > 4096 || !/^[\x21-\x5b\x5d-\x7e]*$/.test(raw)) return undefined
  const match = /^(https?):\/\/([^/?#]*)(\/[^?#]*)?(?:[?#].*)?$/i.exec(raw)
  if (!match) return undefined
  const scheme = match[1]!.toLowerCase()
  const port = scheme === 'http' ? ':80' : ':443'
  let host = match[2]!.toLowerCase()
  if (host.endsWith(port)) host = host.slice(0, -port.length)
  if (host === '' || host.includes('@') || host.endsWith(port)) return undefined
  return `${scheme}://${host}${match[3] ?? '/'}`
}

/** newProof makes a DPoP proof for one request. */
export async function newProof(key: Key, method: string, url: string, nowSeconds: number, token?: string, nonce?: string): Promise<string> {
  const htu = normalHtu(url)
  if (htu === undefined) throw new TypeError('the URL of the request is not an absolute http or https URL')
  const claims: Record<string, unknown> = { jti: crypto.randomUUID(), htm: method, htu, iat: Math.floor(nowSeconds) }
  if (token !== undefined) claims['ath'] = await sha256(token)
  if (nonce) claims['nonce'] = nonce
  return new SignJWT(claims).setProtectedHeader({ alg: key.algorithm, typ: 'dpop+jwt', jwk: key.publicJwk }).sign(key.privateKey)
}
