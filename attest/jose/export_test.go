package jose

// VerifyJWS is Verify for a JWS whose payload is not a JWT, as the Wycheproof
// vectors are: the same gate and the same signature check.
func VerifyJWS(token string, k Key) error {
	p, err := split(token, Limits{}.withDefaults())
	if err != nil {
		return err
	}
	return k.verify(p.header.Alg, p.signingInput, p.signature)
}
