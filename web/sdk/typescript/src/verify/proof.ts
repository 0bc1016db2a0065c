import { normalHtu } from '../proof.js'
import { checkSignature, checkTimes, parseJws } from './jws.js'
import { Malformed, sha256 } from './json.js'

/** WINDOW is the number of seconds that iat of a proof may be before and after now. */
export const WINDOW = 60

/** Proof is an accepted DPoP proof. Its caller compares the thumbprint, and claims the replay key. */
export interface Proof {
  thumbprint: string
  replayKey: string
  issuedAt: number
  nonce: string
}

/** checkProof performs the steps of RFC 9449 section 4.3 but for nonce and replay. It throws Malformed. */
export async function checkProof(headers: readonly string[], method: string, url: string, token: string, now: number): Promise<Proof> {
  const [header] = headers
  if (header === undefined || headers.length !== 1) throw new Malformed('not exactly one DPoP header')
  const jws = await parseJws(header, { size: 8 << 10, depth: 8, members: 64, embeddedKey: true })
  const c = jws.claims
  const htm = c.string('htm')
  const htu = normalHtu(c.string('htu'))
  const want = normalHtu(url)
  if (c.id === '' || c.issuedAt === undefined) throw new Malformed('jti or iat is missing')
  if (htm === '' || htm !== method || htu === undefined || htu !== want) throw new Malformed('the proof is for another method or URL')
  if (now - c.issuedAt > WINDOW || c.issuedAt - now > WINDOW) throw new Malformed('the proof is too old or from the future')
  if (c.string('ath') !== (await sha256(token))) throw new Malformed('the proof is for another token')
  const nonce = c.string('nonce')
  if (c.has('nonce') && !/^[\x21\x23-\x5b\x5d-\x7e]{1,512}$/.test(nonce)) throw new Malformed('the nonce has wrong characters')
  const key = jws.header.key
  if (!key || jws.header.type !== 'dpop+jwt') throw new Malformed('not a DPoP proof with its key')
  checkTimes(c, now, WINDOW)
  await checkSignature(jws, key)
  return { thumbprint: key.thumbprint, replayKey: await sha256([key.thumbprint, want, c.id].join('\0')), issuedAt: c.issuedAt, nonce }
}
