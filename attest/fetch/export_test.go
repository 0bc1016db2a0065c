package fetch

// ParseCertificates is what fuzzing calls by itself.
var ParseCertificates = parseCertificates
