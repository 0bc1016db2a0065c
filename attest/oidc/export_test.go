package oidc

// ReadShape matches a subject against a shape, for tests in package oidc_test.
func ReadShape(s, subject string) (map[string]string, error) {
	out := map[string]string{}
	return out, shape(s).read(subject, out)
}
