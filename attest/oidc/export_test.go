package oidc

// ReadShape reads a subject by a shape.
func ReadShape(s, subject string) (map[string]string, error) {
	out := map[string]string{}
	return out, shape(s).read(subject, out)
}
