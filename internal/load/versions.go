package load

// VersionHeader is the header of an answer with the version of the configuration that served it, and after a space the
// endpoint.
const VersionHeader = "x-tare-version"

// Versions numbers the values of [VersionHeader] that one worker has seen, from 1. 0 is an answer without the header.
type Versions struct {
	numbers map[string]int32
	Values  []string // by number
}

// maxVersions bounds the values: a server may send any.
const maxVersions = 1 << 16

// NewVersions returns an empty numbering.
func NewVersions() *Versions {
	return &Versions{numbers: map[string]int32{}, Values: []string{""}}
}

// Number returns the number of a value, 0 beyond the first 65,535.
func (v *Versions) Number(value []byte) int32 {
	n, known := v.numbers[string(value)]
	if !known && len(v.Values) < maxVersions {
		n = int32(len(v.Values))
		v.Values = append(v.Values, string(value))
		v.numbers[v.Values[n]] = n
	}
	return n
}
