// Package check compares answers with what a profile expects of them.
package check

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/tare-mesh/tare/internal/load"
)

// Expectation holds the conditions under which an answer counts as a success.
type Expectation struct {
	wanted     *load.StatusSet
	named      bool  // the statuses were named: any other is a mistake
	Size       int64 // of the body in bytes, negative for any
	has, lacks [][]byte
	json       []load.JsonPath // required fields, then forbidden ones
	jsonHas    int             // number of required fields
}

func New(p *load.Profile) Expectation {
	e := Expectation{wanted: p.Success(), named: len(p.ExpectStatus) > 0, Size: p.ExpectSize, jsonHas: len(p.JSONHas)}
	for _, text := range p.BodyHas {
		e.has = append(e.has, []byte(text))
	}
	for _, text := range p.BodyLacks {
		e.lacks = append(e.lacks, []byte(text))
	}
	for _, text := range slices.Concat(p.JSONHas, p.JSONLacks) {
		path, _ := load.ParseJSONPath(text) // validated
		e.json = append(e.json, path)
	}
	return e
}

// Content is the checked part of an answer's body.
type Content struct {
	most int // bytes that are kept
	kept []byte
}

// NewContent makes a connection's memory for checks of bodies.
func (e *Expectation) NewContent() Content {
	switch {
	case len(e.json) > 0:
		return Content{most: maxJSON}
	case len(e.has)+len(e.lacks) > 0:
		return Content{most: maxText}
	}
	return Content{}
}

func (c *Content) Reset() { c.kept = c.kept[:0] }

// Add checks the next part of the body.
func (c *Content) Add(b []byte) {
	c.kept = append(c.kept, b[:min(len(b), c.most-len(c.kept))]...)
}

// Check returns how a complete response with body bytes of body differs from the
// expectation. If the status differs, it checks nothing else.
func (e *Expectation) Check(status int, body int64, of *Content) load.Failure {
	switch {
	case !e.wanted[status] && e.named:
		return load.FailureWrongStatus
	case !e.wanted[status]:
		return load.FailureNone // counted by its status alone
	case e.Size >= 0 && body != e.Size:
		return load.FailureWrongSize
	case !e.holds(of.kept[:min(len(of.kept), maxText)]):
		return load.FailureWrongBody
	case len(e.json) > 0:
		return e.checkJSON(of.kept)
	}
	return load.FailureNone
}

func (e *Expectation) holds(body []byte) bool {
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

func (e *Expectation) checkJSON(body []byte) load.Failure {
	if !json.Valid(body) {
		return load.FailureNotJSON
	}
	for i, path := range e.json {
		if hasField(body, path) != (i < e.jsonHas) {
			return load.FailureWrongJSON
		}
	}
	return load.FailureNone
}

// Bodyless is the failure of a body in a response that has none: to HEAD, or of status 204 or 304 (RFC 9110 section 6.4.1).
func Bodyless(head bool, status int) load.Failure {
	switch {
	case head:
		return load.FailureHeadBody
	case status == http.StatusNoContent, status == http.StatusNotModified:
		return load.FailureExtraBytes
	}
	return load.FailureNone
}

// MaxHeader bounds the status line and header of a response, interim responses
// included, in bytes. It ends a response whose header is endless.
const MaxHeader = 64 << 10

// Bytes of a body that are kept for checks of its text, and of its JSON. A server chooses the length of its answers, and each
// connection keeps one.
const (
	maxText = 1 << 20
	maxJSON = 2 << 20
)

// hasField reports whether a JSON document has a field with any value but null, an empty list and an empty object, which many
// programs write where they have no value.
func hasField(document []byte, path load.JsonPath) bool {
	value := json.RawMessage(document)
	for _, key := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil {
			return false
		}
		value = object[key]
	}
	if len(value) == 0 || value[0] == 'n' {
		return false
	}
	return value[0] != '[' && value[0] != '{' || len(bytes.TrimSpace(value[1:len(value)-1])) > 0
}
