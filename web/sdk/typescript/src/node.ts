import { refusal } from './verify/respond.js'
import type { Token, Verifier } from './verify/verifier.js'

// The parts of node:http and express that the adapter uses, so that this package needs no types of them.
interface NodeRequest {
  method?: string | undefined
  url?: string | undefined
  originalUrl?: string
  rawHeaders: string[]
  ebb?: Token
}
interface NodeResponse {
  statusCode: number
  setHeader(name: string, value: string): unknown
  end(body: string): unknown
}

/**
 * middleware is for express and node:http: it calls next only for requests that verify() accepts, with the token in
 * request.ebb. It must see the path as the client sent it.
 */
export function middleware(v: Verifier): (request: NodeRequest, response: NodeResponse, next: (error?: unknown) => void) => Promise<void> {
  return async (request, response, next) => {
    const values = (name: string) => request.rawHeaders.filter((_, i, all) => i % 2 === 1 && all[i - 1]!.toLowerCase() === name)
    try {
      request.ebb = await v.verify({
        method: request.method ?? '', target: request.originalUrl ?? request.url ?? '', authorization: values('authorization'), dpop: values('dpop'),
      })
    } catch (error) {
      const { status, headers, body } = refusal(v, error)
      response.statusCode = status
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
      response.end(body)
      return
    }
    const nonce = v.nonce()
    if (nonce !== '') response.setHeader('dpop-nonce', nonce)
    next()
  }
}
