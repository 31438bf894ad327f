package loadgen

import "bytes"

// expectation is what a 2xx answer must be like to count as one.
type expectation struct {
	size       int64 // of the body in bytes; negative: any
	has, lacks [][]byte
}

func (p *Profile) expectation() expectation {
	e := expectation{size: p.ExpectSize}
	for _, text := range p.BodyHas {
		e.has = append(e.has, []byte(text))
	}
	for _, text := range p.BodyLacks {
		e.lacks = append(e.lacks, []byte(text))
	}
	return e
}

// body says whether the body itself is looked at.
func (e *expectation) body() bool { return len(e.has)+len(e.lacks) > 0 }

// check says how a complete answer, with so many bytes of body of which some are
// kept, differs from what was expected.
func (e *expectation) check(status int, body int64, kept []byte) kind {
	if !good(status) {
		return kindNone // the status says it all
	}
	if e.size >= 0 && body != e.size {
		return kindWrongSize
	}
	for _, text := range e.has {
		if !bytes.Contains(kept, text) {
			return kindWrongBody
		}
	}
	for _, text := range e.lacks {
		if bytes.Contains(kept, text) {
			return kindWrongBody
		}
	}
	return kindNone
}
