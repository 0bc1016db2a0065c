import { plain } from './verify/json.js'

/** Advice has the next steps of a denied agent, as data. */
export interface Advice {
  decision?: string
  code?: string
  note?: string
  would_allow?: string
  retry_after_s?: number
  do_not_retry_same?: boolean
}

/** Details of an EbbError, each absent when unknown. */
export interface Details {
  status?: number
  retryAfterSeconds?: number
  advice?: Advice
  pending?: Pending
  cause?: unknown
}

/** Pending is a request that waits for an approval. Its code is not shown by console.log and JSON.stringify. */
export interface Pending {
  readonly code: string
  /** requestId names the request to people. */
  requestId?: string
  /** matchCode lets a person find the request. */
  matchCode?: string
  /** link is the request's page in the console; absent on loopback. */
  link?: string
  expiresInSeconds?: number
  intervalSeconds?: number
}

const NEXT: Record<string, string> = {
  access_denied: 'Do not repeat the same request. Ask for less, or ask the owner of the policy.',
  approval_required: 'Call token() with wait: true and ask a person to approve the request.',
  expired_token: 'Ask again, and tell an approver.',
  invalid_client: 'Check the client id and its registered key.',
  invalid_dpop_proof: 'Check the clock of this machine and the issuer URL.',
  invalid_evidence: 'A ticket is valid for one key: get a new one from the runner. Other evidence must be of the sandbox that the runner expects.',
  invalid_grant: 'Ask again; for a refused ticket or after the end of the task, ask the runner.',
  invalid_scope: 'Write scopes as provider:resource:action, within the ceiling of the task.',
  not_ebb: 'Check the URL of ebb.',
  not_enrolled: 'Call enrol() with a ticket or evidence first.',
  slow_down: 'Wait, then repeat the request.',
  temporarily_unavailable: 'Repeat the request later.',
  too_many_requests: 'Wait, then repeat the request.',
  unreachable: 'Check the URL of ebb and the network, then repeat the request.',
}

/** EbbError is every failure of a call: an answer of ebb, or a connection without one. */
export class EbbError extends Error {
  override readonly name = 'EbbError'
  /** sentence says what failed and why. It can contain text of the server, without control characters. */
  readonly sentence: string
  /** next has the steps to take now, for people. It can contain text of the server: never run it. */
  readonly next: readonly string[]
  readonly status?: number
  readonly retryAfterSeconds?: number
  readonly advice?: Advice
  readonly pending?: Pending

  constructor(
    /** code is stable: a kind such as access_denied, or not_enrolled, unreachable, not_ebb, origin. */
    readonly code: string,
    sentence: string,
    details: Details = {},
    next: readonly string[] = [],
  ) {
    const clean = printable(sentence)
    const known = details.advice?.would_allow ? [`Ask for ${details.advice.would_allow}.`] : Object.hasOwn(NEXT, code) ? [NEXT[code]!] : []
    const todo = (next.length > 0 ? next : known).slice(0, 5).map(printable)
    super([clean, ...todo].join(' '), details.cause === undefined ? undefined : { cause: details.cause })
    this.sentence = clean
    this.next = todo
    if (details.status !== undefined) this.status = details.status
    if (details.retryAfterSeconds !== undefined) this.retryAfterSeconds = details.retryAfterSeconds
    if (details.advice) this.advice = details.advice
    if (details.pending) this.pending = details.pending
  }
}

/** printable replaces everything that could hide in a terminal or a log, and cuts long texts. */
export function printable(text: string): string {
  const short = text.length > 1000 ? text.slice(0, 1000) + '...' : text
  return Array.from(short, (c) => (plain(c) && !/\p{Surrogate}/u.test(c) ? c : '?')).join('')
}

/** hidden adds a member that console.log and JSON.stringify do not show. */
export function hidden<T extends object, N extends string>(object: T, name: N, value: string): T & { readonly [name in N]: string } {
  return Object.defineProperty(object, name, { value, enumerable: false }) as T & { readonly [name in N]: string }
}
