import { type JWK, calculateJwkThumbprint, exportJWK, exportPKCS8, generateKeyPair, importJWK, importPKCS8 } from 'jose'

/** Key signs the proofs of one sandbox or principal. Its private part is not shown by console.log and JSON.stringify. */
export interface Key {
  readonly algorithm: 'ES256' | 'EdDSA'
  readonly publicJwk: JWK
  /** thumbprint of RFC 7638, the jkt of tokens. */
  readonly thumbprint: string
  readonly privateKey: CryptoKey
}

async function keyOf(algorithm: Key['algorithm'], privateKey: CryptoKey, publicJwk: JWK): Promise<Key> {
  const { kty, crv, x, y } = publicJwk
  const core = (kty === 'EC' ? { kty, crv, x, y } : { kty, crv, x }) as JWK
  const key = { algorithm, publicJwk: core, thumbprint: await calculateJwkThumbprint(core) }
  return Object.defineProperty(key, 'privateKey', { value: privateKey, enumerable: false }) as Key
}

/** newKey generates a key. Only an extractable one can be saved. */
export async function newKey(options: { algorithm?: Key['algorithm']; extractable?: boolean } = {}): Promise<Key> {
  const algorithm = options.algorithm ?? 'ES256'
  const pair = await generateKeyPair(algorithm, { extractable: options.extractable ?? false })
  return keyOf(algorithm, pair.privateKey, await exportJWK(pair.publicKey))
}

/** keyText returns an extractable key as PKCS#8 PEM, which loadKey reads. Write it to a file that only you can read. */
export function keyText(key: Key): Promise<string> {
  return exportPKCS8(key.privateKey)
}

/** loadKey reads a P-256 or Ed25519 key: PKCS#8 PEM or a private JWK, as `ebb keys new` and keyText write them. */
export async function loadKey(text: string): Promise<Key> {
  const bad = new TypeError('the key is neither PKCS#8 PEM nor a private JWK of P-256 or Ed25519; convert it with: openssl pkcs8 -topk8 -nocrypt')
  // Lines before a PEM block explain it (RFC 7468 section 2), such as the client id that `ebb keys new` writes.
  const pem = text.slice(Math.max(0, text.indexOf('-----BEGIN '))).trim()
  for (const algorithm of ['ES256', 'EdDSA'] as const) {
    try {
      const privateKey = text.trimStart().startsWith('{') ? await importJWK(JSON.parse(text), algorithm, { extractable: true }) : await importPKCS8(pem, algorithm, { extractable: true })
      if (privateKey instanceof Uint8Array || privateKey.type !== 'private') continue
      const jwk = await exportJWK(privateKey)
      const key = await keyOf(algorithm, privateKey, jwk)
      if (await belongs(key)) return key
    } catch {
      // The other algorithm follows. Errors of the parsers quote the key.
    }
  }
  throw bad
}

// belongs reports whether the public members of a JWK are those of its private key.
async function belongs(key: Key): Promise<boolean> {
  const publicKey = await importJWK(key.publicJwk, key.algorithm)
  const parameters = key.algorithm === 'ES256' ? { name: 'ECDSA', hash: 'SHA-256' } : { name: 'Ed25519' }
  const text = new TextEncoder().encode('ebb')
  const signature = await crypto.subtle.sign(parameters, key.privateKey, text)
  return crypto.subtle.verify(parameters, publicKey as CryptoKey, signature, text)
}
