package tpm

// ParseSAN is parseSAN, for a fuzz test.
var ParseSAN = parseSAN

// ParsePublic parses, and judges as both kinds of key.
func ParsePublic(b []byte) error {
	p, err := parsePublic(b)
	if err != nil {
		return err
	}
	_, keyErr := p.key()
	if keyErr == nil && p.checkEK() == nil {
		if _, err := p.encapsulation(); err != nil {
			panic(err) // what passes the checks can be encrypted to
		}
	}
	_ = p.checkAK()
	return nil
}

// ParseQuote parses, and says which PCRs are quoted.
func ParseQuote(b []byte) ([]int, error) {
	q, err := parseQuote(b)
	if err != nil {
		return nil, err
	}
	return q.indexes, nil
}

// ParseSignature parses.
func ParseSignature(b []byte) error {
	_, err := parseSignature(b)
	return err
}
