export { type Code, VerifyError } from './error.js'
export { type Answer, incoming, metadata, metadataPath, protect, refusal } from './respond.js'
export { type Config, type Incoming, type Token, Verifier } from './verifier.js'
