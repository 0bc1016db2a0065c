import { EbbError, type Pending, hidden } from './errors.js'
import { type Connection, Peer, loopback, sleep } from './http.js'
import type { Key } from './key.js'
import { newProof } from './proof.js'
import { covers } from './verify/scope.js'

/** Enrolment is the identity of an enrolled sandbox. Store taskToken and the key, as secrets, to continue after a restart. */
export interface Enrolment {
  readonly taskToken: string
  taskId: string
  clientId: string
  expiresAt: string
}

/** Evidence of the environment, such as a JWT of an identity provider; attestor is by default the one that the runner expects. */
export interface Evidence {
  taskId: string
  evidence?: string
  attestor?: string
}

/** TokenRequest requests one credential. */
export interface TokenRequest {
  /** scope has scopes separated by one space, of one provider. */
  scope: string
  resource?: string
  ttlSeconds?: number
  tool?: string
  /** reason is shown to approvers, and never parsed. */
  reason?: string
  /** delivery is "egress" for a placeholder that ebb's egress proxy replaces; ebb chooses by default. */
  delivery?: 'token' | 'egress'
  /** content is the id ("cnt_...") that a refusal of the egress proxy names: the credential is then for that request alone. */
  content?: string
  /** wait for the approval, when policy requires one, until the request is decided or the signal aborts. */
  wait?: boolean
  /** pending is called once when the request waits for an approval. */
  pending?: (p: Pending) => void
  signal?: AbortSignal
}

/** Credential is an issued token. Its token is not shown by console.log and JSON.stringify. */
export interface Credential {
  readonly token: string
  type: 'DPoP' | 'Bearer' | 'N_A'
  scope: string
  leaseId: string
  resource: string
  expiresAt: Date
}

export interface Delegation {
  scope: string
  ttlSeconds?: number
  uses?: number
  depth?: number
}

const GRANT = 'urn:ietf:params:oauth:grant-type:'
const LONGEST = 300 // seconds between two polls

/** Sandbox requests credentials for one task. */
export class Sandbox {
  private readonly peer: Peer
  private readonly origins = new WeakMap<Credential, string>() // to which credentials are bound
  #taskToken: string | undefined // not shown by console.log and JSON.stringify

  /** taskToken is the result of an earlier enrol() with the same key. */
  constructor(connection: Connection & { key: Key; taskToken?: string }) {
    this.peer = new Peer(connection, connection.key)
    this.#taskToken = connection.taskToken
  }

  /** enrol redeems a single-use ticket, or shows evidence of the environment. */
  async enrol(by: string | Evidence, options: { signal?: AbortSignal } = {}): Promise<Enrolment> {
    const json = typeof by === 'string' ? { ticket: by } : { task_id: by.taskId, evidence: by.evidence, attestor: by.attestor }
    const a = await this.peer.call({ method: 'POST', path: '/v1/enroll', json, ...options })
    if (!word(a['task_token']) || !word(a['task_id']) || !word(a['client_id']) || a['token_type'] !== 'DPoP') throw unusable('task token')
    this.#taskToken = a['task_token']
    return hidden({ taskId: a['task_id'], clientId: a['client_id'], expiresAt: word(a['expires_at']) ? a['expires_at'] : '' }, 'taskToken', this.#taskToken)
  }

  /** token requests a credential. The same request made again, also after a restart, finds the same approval request. */
  async token(r: TokenRequest): Promise<Credential> {
    const form: Record<string, string> = {
      grant_type: GRANT + 'token-exchange',
      subject_token: this.enrolled(),
      subject_token_type: 'urn:ebb:params:oauth:token-type:task',
    }
    const optional = { scope: r.scope, resource: r.resource, tool: r.tool, reason: r.reason, delivery: r.delivery, content: r.content, requested_expiry: r.ttlSeconds?.toString() }
    for (const [name, value] of Object.entries(optional)) if (value) form[name] = value
    if (r.wait) form['completion_mode'] = 'deferred'
    try {
      return await this.ask(form, r)
    } catch (error) {
      if (!(error instanceof EbbError) || error.code !== 'authorization_pending' || !error.pending?.code) throw error
      r.pending?.(error.pending)
      if (!r.wait) throw error
      return await this.poll(error.pending, r)
    }
  }

  /** poll waits for the decision on a pending request. While ebb cannot be reached, poll continues. */
  async poll(p: Pending, r: { signal?: AbortSignal; resource?: string } = {}): Promise<Credential> {
    const form = { grant_type: GRANT + 'deferred', deferral_code: p.code }
    let interval = p.intervalSeconds || 5
    const end = p.expiresInSeconds ? this.peer.now() + (p.expiresInSeconds + interval) * 1000 : Infinity
    for (let wait = interval, trouble = 0; ; ) {
      await sleep(wait, r.signal)
      try {
        return await this.ask(form, r)
      } catch (error) {
        if (!(error instanceof EbbError) || this.peer.now() > end) throw error
        if (error.code === 'slow_down') interval = Math.max(interval + 5, error.pending?.intervalSeconds ?? 0)
        else if (['temporarily_unavailable', 'too_many_requests', 'unreachable'].includes(error.code)) trouble = Math.min(Math.max(2 * trouble, 2), LONGEST)
        else if (error.code !== 'authorization_pending') throw error
        wait = Math.min(Math.max(interval, trouble, error.retryAfterSeconds ?? 0), LONGEST)
      }
    }
  }

  private async ask(form: Record<string, string>, r: { signal?: AbortSignal; resource?: string }): Promise<Credential> {
    const now = this.peer.now()
    const a = await this.peer.call({ method: 'POST', path: '/oauth2/token', form, ...(r.signal ? { signal: r.signal } : {}) })
    const type = a['token_type']
    const seconds = a['expires_in']
    if (!(type === 'DPoP' || type === 'Bearer' || type === 'N_A') || typeof seconds !== 'number' || !(seconds > 0)) throw unusable('token')
    if (typeof a['access_token'] !== 'string' || a['access_token'] === '' || (type !== 'N_A' && !word(a['access_token']))) throw unusable('token')
    const scope = typeof a['scope'] === 'string' && /^[\x20-\x7e]*$/.test(a['scope']) ? a['scope'] : ''
    const leaseId = word(a['lease_id']) ? a['lease_id'] : ''
    return hidden({ type, scope, leaseId, resource: r.resource ?? '', expiresAt: new Date(now + seconds * 1000) }, 'token', a['access_token'])
  }

  /**
   * fetch returns a function like the global fetch that uses the credential at its resource server: with the token and a
   * new proof for each request, once more when the server requires a nonce. The credential is sent only to the origin of
   * its resource. A credential without a resource is bound to the origin of its first request, in every function that
   * fetch returns for the same object. Redirects are not followed.
   */
  fetch(c: Credential): (url: string | URL, init?: RequestInit) => Promise<Response> {
    let nonce = ''
    return async (url, init = {}) => {
      const target = new URL(url)
      if (target.protocol !== 'https:' && !(target.protocol === 'http:' && loopback(target))) {
        throw new EbbError('origin', `plain http is allowed on loopback only, not to ${target.hostname}.`, {}, ['Use https.'])
      }
      const origin = c.resource !== '' ? new URL(c.resource).origin : (this.origins.get(c) ?? target.origin)
      this.origins.set(c, origin)
      if (target.origin !== origin) {
        throw new EbbError('origin', `The credential is for ${origin}, not for ${target.origin}.`, {}, ['Request a credential for that server.'])
      }
      for (let again = false; ; again = true) {
        const used = nonce
        const response = await this.once(c, target, init, used)
        nonce = response.headers.get('dpop-nonce') ?? nonce
        const asked = response.status === 401 && (response.headers.get('www-authenticate') ?? '').includes('"use_dpop_nonce"')
        if (again || !asked || nonce === used || init.body instanceof ReadableStream) return response
        await response.body?.cancel()
      }
    }
  }

  private async once(c: Credential, target: URL, init: RequestInit, nonce: string): Promise<Response> {
    const headers = new Headers(init.headers)
    const method = (init.method ?? 'GET').toUpperCase()
    if (c.type === 'N_A') throw new EbbError('origin', 'The credential is not an access token.', {}, ['Use it as its provider documents it.'])
    headers.set('authorization', `${c.type} ${c.token}`)
    if (c.type === 'DPoP') headers.set('dpop', await newProof(this.peer.key, method, target.href, this.peer.now() / 1000, c.token, nonce))
    return this.peer.fetch(target, { ...init, method, headers, redirect: 'manual' })
  }

  /** revoke revokes a credential, or withdraws a pending request. An unknown or already revoked token is not an error. */
  async revoke(c: Credential | Pending): Promise<void> {
    await this.asSandbox('/oauth2/revoke', { token: 'token' in c ? c.token : c.code })
  }

  /** delegate opens a task for another sandbox within this one's; that sandbox enrols with the ticket. */
  async delegate(d: Delegation): Promise<{ taskId: string; scope: string; readonly ticket: string }> {
    const form: Record<string, string> = { scope: d.scope }
    for (const [name, n] of Object.entries({ requested_expiry: d.ttlSeconds, uses: d.uses, depth: d.depth })) if (n !== undefined) form[name] = String(n)
    const a = await this.asSandbox('/oauth2/delegate', form)
    const { task_id: taskId, scope, ticket = '' } = a
    if (!word(taskId) || typeof scope !== 'string' || typeof ticket !== 'string' || (ticket !== '' && !word(ticket)) || !covers(d.scope, scope)) throw unusable('delegated task')
    return hidden({ taskId, scope }, 'ticket', ticket)
  }

  private asSandbox(path: string, form: Record<string, string>): Promise<Record<string, unknown>> {
    return this.peer.call({ method: 'POST', path, form, token: this.enrolled() })
  }

  private enrolled(): string {
    if (this.#taskToken === undefined) throw new EbbError('not_enrolled', 'The sandbox is not enrolled.')
    return this.#taskToken
  }
}

/** word reports whether v is one word of visible ASCII, as tokens and ids are: they are written to headers and logs. */
export function word(v: unknown): v is string {
  return typeof v === 'string' && /^[\x21-\x7e]+$/.test(v)
}

export function unusable(what: string): EbbError {
  return new EbbError('not_ebb', `The answer of ebb contains no ${what} that this client can use.`)
}
