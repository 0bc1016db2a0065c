/** Code is the error code of a challenge (RFC 6750 section 3.1, RFC 9449 section 7.1); "" without one. */
export type Code = '' | 'invalid_request' | 'invalid_token' | 'insufficient_scope' | 'invalid_dpop_proof' | 'use_dpop_nonce'

const STATUS: Record<Code, number> = { '': 401, invalid_request: 400, invalid_token: 401, insufficient_scope: 403, invalid_dpop_proof: 401, use_dpop_nonce: 401 }

/** VerifyError is the reason for refusing a request. Its sentence contains nothing of the request. */
export class VerifyError extends Error {
  override readonly name = 'VerifyError'
  readonly status: number
  /** scope has the scopes that the request needs, with insufficient_scope. */
  readonly scope: string
  readonly retryAfterSeconds: number

  constructor(
    readonly code: Code,
    readonly sentence: string,
    options: { status?: number; scope?: string; cause?: unknown; retryAfterSeconds?: number } = {},
  ) {
    super(sentence, options.cause === undefined ? undefined : { cause: options.cause })
    this.status = options.status ?? STATUS[code]
    this.scope = options.scope ?? ''
    this.retryAfterSeconds = options.retryAfterSeconds ?? (this.status === 503 ? 2 : 0)
  }
}

/** doubt is the error when a token can be neither accepted nor refused. */
export function doubt(sentence: string, cause?: unknown): VerifyError {
  return new VerifyError('', sentence, { status: 503, cause })
}
