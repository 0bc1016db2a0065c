import { VerifyError } from './error.js'
import type { Incoming, Token, Verifier } from './verifier.js'

/** Answer is the response for a refused request. */
export interface Answer {
  status: number
  headers: Record<string, string>
  body: string
}

/** metadataPath returns the path at which a server publishes metadata(): the well-known path before the path of the resource (RFC 9728). */
export function metadataPath(v: Verifier): string {
  return '/.well-known/oauth-protected-resource' + new URL(v.resource).pathname.replace(/\/+$/, '')
}

/** metadata is the protected resource metadata, by which clients find the issuer. */
export function metadata(v: Verifier): Record<string, unknown> {
  return {
    resource: v.resource, authorization_servers: [v.issuer], bearer_methods_supported: ['header'], dpop_signing_alg_values_supported: ['ES256', 'EdDSA', 'Ed25519'],
  }
}

/** refusal returns the response for an error of verify(): the challenge and a problem document. An unknown error is a 500 without text. */
export function refusal(v: Verifier, error: unknown): Answer {
  const e = error instanceof VerifyError ? error : new VerifyError('', '', { status: 500 })
  const headers: Record<string, string> = { 'cache-control': 'no-store', 'content-type': 'application/problem+json' }
  if ([400, 401, 403].includes(e.status)) {
    const attributes: Record<string, string> = { realm: v.resource }
    if (e.code !== '') Object.assign(attributes, { error: e.code, error_description: e.sentence })
    if (e.scope !== '') attributes['scope'] = e.scope
    attributes['algs'] = 'ES256 EdDSA Ed25519'
    attributes['resource_metadata'] = new URL(v.resource).origin + metadataPath(v)
    headers['www-authenticate'] = 'DPoP ' + Object.entries(attributes).map(([name, value]) => `${name}="${value}"`).join(', ')
  }
  if (e.retryAfterSeconds > 0) headers['retry-after'] = String(e.retryAfterSeconds)
  const nonce = v.nonce()
  if (nonce !== '') headers['dpop-nonce'] = nonce
  return { status: e.status, headers, body: JSON.stringify({ type: 'about:blank', title: 'refused', status: e.status, detail: e.sentence }) + '\n' }
}

/** incoming reads a Request. Its runtime has joined several headers of one name, which verify() refuses as well. */
export function incoming(request: Request): Incoming {
  const values = (name: string) => (request.headers.has(name) ? [request.headers.get(name)!] : [])
  const url = new URL(request.url)
  return { method: request.method, target: url.pathname + url.search, authorization: values('authorization'), dpop: values('dpop') }
}

/** protect returns a fetch-style handler that calls next only for requests that verify() accepts. */
export function protect(v: Verifier, next: (request: Request, token: Token) => Response | Promise<Response>): (request: Request) => Promise<Response> {
  return async (request) => {
    let token: Token
    try {
      token = await v.verify(incoming(request))
    } catch (error) {
      const { status, headers, body } = refusal(v, error)
      return new Response(body, { status, headers })
    }
    const response = await next(request, token)
    const nonce = v.nonce()
    if (nonce === '') return response
    const headers = new Headers(response.headers)
    headers.set('dpop-nonce', nonce)
    return new Response(response.body, { status: response.status, statusText: response.statusText, headers })
  }
}
