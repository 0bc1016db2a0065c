import { SignJWT } from 'jose'
import { type Advice, EbbError, type Pending, hidden, printable } from './errors.js'
import type { Key } from './key.js'
import { newProof } from './proof.js'
import { parseScopes } from './verify/scope.js'

/** Connection has the address of ebb and the settings of requests. */
export interface Connection {
  /** issuer is ebb's public base URL, exactly as in its metadata. */
  issuer: string
  /** url is the address to connect to when it differs from issuer. */
  url?: string
  /** fetch replaces the global one. */
  fetch?: typeof fetch
  /** timeoutSeconds limits one call, without the wait for an approval. Default 30. */
  timeoutSeconds?: number
  /** now returns the time in milliseconds since 1970. Default Date.now. */
  now?: () => number
}

export interface Call {
  method: 'GET' | 'POST'
  path: string
  query?: Record<string, string>
  form?: Record<string, string>
  json?: unknown
  token?: string
  signal?: AbortSignal
  waitSeconds?: number
  limit?: number
}

const ANSWER = 16 << 20
const PROBLEM = 64 << 10

/** Peer sends calls with a DPoP proof, once more when ebb requires a nonce. */
export class Peer {
  readonly issuer: string
  readonly now: () => number
  readonly fetch: typeof fetch
  readonly base: string
  private readonly timeout: number
  private readonly nonces: Record<string, string> = {}

  constructor(
    c: Connection,
    readonly key: Key,
  ) {
    this.issuer = baseUrl('issuer', c.issuer)
    this.base = c.url === undefined ? this.issuer : baseUrl('url', c.url)
    this.now = c.now ?? Date.now
    this.fetch = c.fetch ?? ((input, init) => fetch(input, init))
    this.timeout = c.timeoutSeconds ?? 30
  }

  /** call returns the JSON object of the answer, {} for an answer without a body. */
  async call(c: Call): Promise<Record<string, unknown>> {
    const area = c.path.startsWith('/oauth2/') ? 'oauth2' : 'v1'
    for (let again = false; ; again = true) {
      const nonce = this.nonces[area] ?? ''
      const response = await this.once(c, nonce)
      const fresh = response.headers.get('dpop-nonce') ?? ''
      if (fresh !== '') this.nonces[area] = fresh
      if (response.ok) return response.status === 204 ? {} : await answer(response, c.limit ?? ANSWER)
      const error = await problem(response, this.issuer)
      if (again || error.code !== 'use_dpop_nonce' || fresh === '' || fresh === nonce) throw error
    }
  }

  private async once(c: Call, nonce: string): Promise<Response> {
    const headers: Record<string, string> = { accept: 'application/json' }
    headers['dpop'] = await newProof(this.key, c.method, this.issuer + c.path, this.now() / 1000, c.token, nonce)
    if (c.token !== undefined) headers['authorization'] = 'DPoP ' + c.token
    let body: string | undefined
    if (c.form) {
      headers['content-type'] = 'application/x-www-form-urlencoded'
      body = new URLSearchParams(c.form).toString()
    } else if (c.json !== undefined) {
      headers['content-type'] = 'application/json'
      body = JSON.stringify(c.json)
    }
    const query = new URLSearchParams(c.query).toString()
    const limit = AbortSignal.timeout((this.timeout + (c.waitSeconds ?? 0)) * 1000)
    const init: RequestInit = { method: c.method, headers, redirect: 'manual', signal: c.signal ? AbortSignal.any([c.signal, limit]) : limit }
    if (body !== undefined) init.body = body
    try {
      return await this.fetch(this.base + c.path + (query && '?' + query), init)
    } catch (cause) {
      c.signal?.throwIfAborted()
      throw new EbbError('unreachable', `ebb cannot be reached at ${this.base}.`, { cause })
    }
  }

  /** assertion returns the form members of private_key_jwt (RFC 7523): the issuer is the only audience. */
  async assertion(clientId: string, kid?: string): Promise<Record<string, string>> {
    const now = Math.floor(this.now() / 1000)
    const jwt = await new SignJWT({ iss: clientId, sub: clientId, aud: this.issuer, jti: crypto.randomUUID(), iat: now, exp: now + 60 })
      .setProtectedHeader({ alg: this.key.algorithm, typ: 'client-authentication+jwt', ...(kid ? { kid } : {}) })
      .sign(this.key.privateKey)
    return { client_id: clientId, client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer', client_assertion: jwt }
  }
}

/** baseUrl returns a base URL without slashes at its end. It throws for one that secrets must not be sent to. */
export function baseUrl(name: string, raw: string): string {
  const u = URL.canParse(raw) ? new URL(raw) : undefined
  if (!u || /[?#]/.test(raw) || u.username || u.password || !(u.protocol === 'https:' || (u.protocol === 'http:' && loopback(u)))) {
    const got = raw.includes('@') ? 'a URL with a user' : JSON.stringify(printable(raw)) // a user can have a password
    throw new TypeError(`${name} must be an https URL without user, query and fragment (http only on loopback); got ${got}`)
  }
  return raw.replace(/\/+$/, '')
}

/** loopback reports whether a URL names this machine, the only one that plain http is allowed to. */
export function loopback(u: URL): boolean {
  return u.hostname === 'localhost' || u.hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(u.hostname)
}

/** limitedText returns undefined for a body of more than limit bytes, and throws for one that is not UTF-8. */
export async function limitedText(response: Response, limit: number): Promise<string | undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let text = ''
  let size = 0
  const reader = response.body?.getReader()
  while (reader) {
    const { done, value } = await reader.read()
    if (done) break
    size += value.length
    if (size > limit) {
      await reader.cancel()
      return undefined
    }
    text += decoder.decode(value, { stream: true })
  }
  return text + decoder.decode()
}

function jsonType(response: Response): string {
  return (response.headers.get('content-type') ?? '').split(';')[0]!.trim().toLowerCase()
}

async function answer(response: Response, limit: number): Promise<Record<string, unknown>> {
  const text = await limitedText(response, limit).catch(() => undefined)
  if (text === '') return {}
  const value = jsonType(response) === 'application/json' && text !== undefined ? object(text) : undefined
  if (!value) throw new EbbError('not_ebb', `The answer with status ${response.status} is not JSON of ebb.`, { status: response.status })
  return value
}

function object(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

const text = (v: unknown): string => (typeof v === 'string' ? v : '')

/** codeOf returns "" for a text that is not an error code: programs print codes. */
const codeOf = (v: string): string => (/^[a-z0-9_]{1,64}$/.test(v) ? v : '')

const ADVICE = new Set(['decision', 'code', 'note', 'would_allow', 'retry_after_s', 'do_not_retry_same'])

// Codes of the OAuth registry that differ from the kinds of /v1.
const KINDS: Record<string, string> = { interaction_required: 'approval_required', unauthorized_client: 'forbidden', server_error: 'internal' }

async function problem(response: Response, issuer: string): Promise<EbbError> {
  const { status } = response
  const seconds = Number(response.headers.get('retry-after') ?? NaN)
  const details = { status, ...(seconds >= 0 ? { retryAfterSeconds: Math.min(seconds, 7 * 86400) } : {}) }
  const body = /^application\/(problem\+)?json$/.test(jsonType(response)) ? object((await limitedText(response, PROBLEM).catch(() => '')) ?? '') : undefined
  const code = codeOf(text(body?.['error']))
  const kind = codeOf(text(body?.['type']).replace(/^.*\//, ''))
  if (!body || (code === '' && kind === '')) {
    if (status === 503) return new EbbError('temporarily_unavailable', 'A proxy cannot reach ebb.', details)
    return new EbbError('not_ebb', `The answer with status ${status} is not from ebb.`, details)
  }
  const steps: unknown = body['next']
  const next = Array.isArray(steps) ? steps.filter((step) => typeof step === 'string') : []
  const advice = adviceOf(body['advice'])
  const more = { ...details, ...(advice ? { advice } : {}), ...pendingOf(body, issuer) }
  if (code === '') return new EbbError(kind, text(body['detail']) || text(body['title']) || kind, more, next)
  const known = status === 429 && code !== 'slow_down' ? 'too_many_requests' : Object.hasOwn(KINDS, code) ? KINDS[code]! : code
  return new EbbError(known, text(body['error_description']) || code, more, next)
}

function adviceOf(value: unknown): Advice | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const advice: Advice = {}
  for (const [name, member] of Object.entries(value)) {
    const clean = typeof member === 'string' ? printable(member) : member
    if (ADVICE.has(name) && ['string', 'number', 'boolean'].includes(typeof clean)) Object.assign(advice, { [name]: clean })
  }
  try {
    parseScopes(advice.would_allow ?? '') // programs ask for it next
  } catch {
    return undefined
  }
  return advice
}

function pendingOf(body: Record<string, unknown>, issuer: string): { pending?: Pending } {
  const code = text(body['deferral_code'])
  const number = (name: string) => (typeof body[name] === 'number' ? Math.max(0, Math.min(body[name], 7 * 86400)) : undefined)
  const interval = number('interval')
  if (code === '' && interval === undefined) return {}
  const pending: { -readonly [k in Exclude<keyof Pending, 'code'>]?: Pending[k] } = {}
  const expires = number('expires_in')
  if (interval !== undefined) pending.intervalSeconds = interval
  if (expires !== undefined) pending.expiresInSeconds = expires
  const id = text(body['request_id'])
  if (/^[\x21-\x7e]{1,128}$/.test(id)) {
    pending.requestId = id
    // On loopback the console has a secret host name (docs/reference/console.md).
    if (!loopback(new URL(issuer))) pending.link = `${issuer}/requests/${encodeURIComponent(id)}`
  }
  const match = text(body['match_code'])
  if (match !== '') pending.matchCode = printable(match)
  return { pending: hidden(pending, 'code', code) }
}

/** sleep throws the reason of the signal when that aborts. */
export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, seconds * 1000)
    signal?.addEventListener('abort', stop, { once: true })
  })
}
