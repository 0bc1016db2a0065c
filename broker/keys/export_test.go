package keys

// The stored encoding, for golden and fuzz tests.
var (
	EncodeKey    = encodeKey
	DecodeKey    = decodeKey
	EncodeSecret = encodeSecret
	DecodeSecret = decodeSecret
)
