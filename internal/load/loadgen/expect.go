package loadgen

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// statusSet has an entry for every status there is: whether it is an answer wanted.
type statusSet [statuses]bool

// success are the statuses wanted where nothing else is said: any 2xx, gRPC's 0, and
// a whole echo.
var success = func() *statusSet {
	s := &statusSet{grpcBase: true, statusEcho: true}
	for code := 200; code < 300; code++ {
		s[code] = true
	}
	return s
}()

// add takes a status as it is written: a code (404), a class (3xx), or one of
// gRPC (grpc-5).
func (s *statusSet) add(text string) error {
	if len(text) == 3 && text[1:] == "xx" && text[0] >= '1' && text[0] <= '5' {
		first := int(text[0]-'0') * 100
		for code := first; code < first+100; code++ {
			s[code] = true
		}
		return nil
	}
	n := statusOf(text)
	if n < 100 || n < grpcBase && len(text) != 3 {
		return fmt.Errorf("expected status %q is none of the forms 200, 2xx and grpc-0", text)
	}
	s[n] = true
	return nil
}

// wanted are the statuses that count as success.
func (p *Profile) wanted() *statusSet {
	if len(p.ExpectStatus) == 0 {
		return success
	}
	s := &statusSet{}
	for _, text := range p.ExpectStatus {
		_ = s.add(text) // validated
	}
	return s
}

// expectation is what an answer must be like to count as a success.
type expectation struct {
	wanted     *statusSet
	named      bool  // the statuses were named: any other is a mistake
	size       int64 // of the body in bytes; negative: any
	has, lacks [][]byte
	json       []jsonPath // those that must be there, then those that must not
	jsonHas    int        // how many must be there
}

func newExpectation(p *Profile) expectation {
	e := expectation{wanted: p.wanted(), named: len(p.ExpectStatus) > 0, size: p.ExpectSize, jsonHas: len(p.JSONHas)}
	for _, text := range p.BodyHas {
		e.has = append(e.has, []byte(text))
	}
	for _, text := range p.BodyLacks {
		e.lacks = append(e.lacks, []byte(text))
	}
	for _, text := range slices.Concat(p.JSONHas, p.JSONLacks) {
		path, _ := parseJSONPath(text) // validated
		e.json = append(e.json, path)
	}
	return e
}

// content is what is kept of an answer's body, or seen in it, to be checked.
type content struct {
	keep bool
	kept []byte    // at most maxKept bytes
	json *jsonLook // nil: it is not looked at as JSON
}

// content makes a connection's memory for what is looked at in bodies.
func (e *expectation) content() content {
	c := content{keep: len(e.has)+len(e.lacks) > 0}
	if len(e.json) > 0 {
		c.json = newJSONLook(e.json)
	}
	return c
}

// again prepares for the next answer.
func (c *content) again() {
	if c.json != nil {
		c.json.reset()
	}
	c.kept = c.kept[:0]
}

// take looks at some of the body.
func (c *content) take(b []byte) {
	if c.keep {
		c.kept = append(c.kept, b[:min(len(b), maxKept-len(c.kept))]...)
	}
	if c.json != nil {
		c.json.feed(b)
	}
}

// check says how a complete answer, with so many bytes of body, differs from what
// was expected. An answer of a status that is not wanted is looked at no further.
func (e *expectation) check(status int, body int64, of *content) kind {
	switch {
	case !e.wanted[status] && e.named:
		return kindWrongStatus
	case !e.wanted[status]:
		return kindNone // the status says it all
	case e.size >= 0 && body != e.size:
		return kindWrongSize
	case of.keep && !e.holds(of.kept):
		return kindWrongBody
	case of.json != nil:
		return e.checkJSON(of.json)
	}
	return kindNone
}

func (e *expectation) holds(body []byte) bool {
	for _, text := range e.has {
		if !bytes.Contains(body, text) {
			return false
		}
	}
	for _, text := range e.lacks {
		if bytes.Contains(body, text) {
			return false
		}
	}
	return true
}

func (e *expectation) checkJSON(seen *jsonLook) kind {
	if !seen.whole() {
		return kindNotJSON
	}
	for i := range e.json {
		if seen.has(i) != (i < e.jsonHas) {
			return kindWrongJSON
		}
	}
	return kindNone
}

// validateChecks names what answers cannot be asked to be like.
func (p *Profile) validateChecks() (errs []error) {
	for _, text := range p.ExpectStatus {
		var s statusSet
		if err := s.add(text); err != nil {
			errs = append(errs, err)
			continue
		}
		isGRPC := slices.Contains(s[grpcBase:], true)
		if isGRPC != (p.Protocol == protocolGRPC) && p.Protocol != protocolTCP {
			errs = append(errs, fmt.Errorf("expected status %s with protocol %s: its statuses are %s", text, p.Protocol, statusExamples(p.Protocol)))
		}
	}
	fields := slices.Concat(p.JSONHas, p.JSONLacks)
	for _, text := range fields {
		if _, err := parseJSONPath(text); err != nil {
			errs = append(errs, err)
		}
	}
	if len(fields) > maxJSONPaths {
		errs = append(errs, fmt.Errorf("%d JSON fields are more than %d", len(fields), maxJSONPaths))
	}
	if len(fields) > 0 && p.Method == http.MethodHead {
		errs = append(errs, errors.New("an answer to HEAD has no body whose JSON fields could be checked"))
	}
	if len(fields) > 0 && p.Protocol == protocolGRPC {
		errs = append(errs, fmt.Errorf("checks of JSON fields with protocol %s: %w", p.Protocol, errors.ErrUnsupported))
	}
	return errs
}

func statusExamples(protocol string) string {
	if protocol == protocolGRPC {
		return grpcPrefix + "0 to " + grpcPrefix + strconv.Itoa(grpcCodes-1)
	}
	return "such as 200 or 2xx"
}
