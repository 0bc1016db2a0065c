import { EbbError, hidden } from './errors.js'
import { type Call, type Connection, Peer } from './http.js'
import type { Key } from './key.js'
import { unusable, word } from './sandbox.js'

/** Identity is a principal of ebb's configuration, with its registered key. kid is needed only if it has several keys. */
export interface Identity {
  clientId: string
  key: Key
  kid?: string
}

/** Principal calls /v1 with a token of its own, which it renews. */
export class Principal {
  readonly peer: Peer
  #token = '' // not shown by console.log and JSON.stringify
  private expires = 0
  private endsOnly = false // the token can only end tasks

  constructor(private readonly identity: Connection & Identity) {
    this.peer = new Peer(identity, identity.key)
  }

  async call(c: Call): Promise<Record<string, unknown>> {
    for (let again = false; ; again = true) {
      if (this.peer.now() >= this.expires) await this.renew(c.signal)
      try {
        return await this.peer.call({ ...c, token: this.#token })
      } catch (error) {
        if (again || !(error instanceof EbbError)) throw error
        const refused = error.status === 401 && error.code !== 'invalid_dpop_proof' && error.code !== 'use_dpop_nonce'
        if (!refused && !(error.status === 503 && this.endsOnly)) throw error
        this.expires = 0
      }
    }
  }

  private async renew(signal?: AbortSignal): Promise<void> {
    const now = this.peer.now()
    const form = { grant_type: 'client_credentials', resource: this.peer.issuer + '/v1', ...(await this.peer.assertion(this.identity.clientId, this.identity.kid)) }
    const a = await this.peer.call({ method: 'POST', path: '/oauth2/token', form, ...(signal ? { signal } : {}) })
    const life = a['expires_in']
    if (a['token_type'] !== 'DPoP' || !word(a['access_token']) || typeof life !== 'number' || !(life > 0)) throw unusable('token')
    this.#token = a['access_token']
    // When a store of ebb does not answer in time, the token can only end tasks; the next call fetches a new one.
    this.endsOnly = typeof a['scope'] === 'string' && a['scope'].split(' ').includes('ends')
    this.expires = this.endsOnly ? 0 : now + (life - Math.min(30, life / 5)) * 1000
  }
}

/** TaskSpec is the body of POST /v1/tasks, with the names of the API document. */
export interface TaskSpec {
  name: string
  kind: string
  owner?: string
  ttl_seconds: number
  ceiling: string
  sandbox_expected: { attestor: string; selectors?: Record<string, string> }
  ticket?: boolean
  labels?: Record<string, string>
  heartbeat_seconds?: number
  delegation?: { sandbox_expected: { attestor: string }; depth: number }
}

/** Runner opens and completes tasks. */
export class Runner {
  private readonly principal: Principal

  constructor(identity: Connection & Identity) {
    this.principal = new Principal(identity)
  }

  /** openTask opens a task. ticket is "" unless spec.ticket is set; give it to the sandbox only. */
  async openTask(spec: TaskSpec): Promise<{ taskId: string; readonly ticket: string }> {
    const a = await this.principal.call({ method: 'POST', path: '/v1/tasks', json: spec })
    const task = a['task'] as Record<string, unknown> | undefined
    const ticket = a['ticket'] ?? ''
    if (!word(task?.['id']) || typeof ticket !== 'string') throw unusable('task')
    return hidden({ taskId: task['id'] }, 'ticket', ticket)
  }

  /** completeTask completes a task and revokes its credentials. It is idempotent: repeat it until it succeeds. */
  async completeTask(taskId: string, options: { waitSeconds?: number } = {}): Promise<{ pendingRevocations: number }> {
    const wait = Math.min(options.waitSeconds ?? 0, 60)
    const a = await this.principal.call({
      method: 'POST',
      path: `/v1/tasks/${encodeURIComponent(taskId)}/complete`,
      ...(wait > 0 ? { query: { wait_seconds: String(wait) }, waitSeconds: wait } : {}),
    })
    return { pendingRevocations: Number(a['pending_revocations'] ?? 0) }
  }
}
