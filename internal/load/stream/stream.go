// Package stream finds the messages of an answer that streams: events, lines of JSON, or chunks. It has no clock.
package stream

import (
	"bytes"
	"strings"
)

// Kind is how a body is divided into messages.
type Kind uint8

const (
	None   Kind = iota // not a stream
	Events             // server-sent events: each ends with an empty line
	Lines              // newline-delimited JSON
	Chunks             // chunks of HTTP/1.1, DATA frames of HTTP/2
)

// kinds are the media types of streams. None is longer than 32 bytes: to compare it allocates nothing.
var kinds = []struct {
	mediaType string
	kind      Kind
}{{"text/event-stream", Events}, {"application/x-ndjson", Lines}, {"application/ndjson", Lines}, {"application/jsonl", Lines}, {"application/stream+json", Lines}}

// KindOf returns the kind of a body by its Content-Type.
func KindOf[T string | []byte](contentType T) Kind {
	for _, k := range kinds {
		n := len(k.mediaType)
		if len(contentType) >= n && strings.EqualFold(string(contentType[:n]), k.mediaType) && (len(contentType) == n || contentType[n] == ';' || contentType[n] == ' ') {
			return k.kind
		}
	}
	return None
}

// Times are the messages of an answer, and their instants in ns.
type Times struct {
	Messages int
	Message  int64 // when the first was whole
	latest   int64
}

// Arrive notes a message that is whole at an instant, or at that of the message before if it was noted later. It returns the time
// between them, negative for the first.
func (t *Times) Arrive(at int64) (gap int64) {
	now := max(at, t.latest)
	gap = now - t.latest
	if t.Messages == 0 {
		t.Message, gap = now, -1
	}
	t.Messages++
	t.latest = now
	return gap
}

// Counter counts the messages of a body that comes in pieces of any size.
type Counter struct {
	Kind     Kind
	Messages int
	line     [longestMark]byte // the beginning of the line under way
	length   int               // of the line
	data     bool              // the event under way has data
}

// The end of a stream of completions is an event, and no message.
const (
	dataField   = "data:"
	endMark     = "[DONE]"
	longestMark = len(dataField) + len(" ") + len(endMark) + len("\r")
)

// Count takes the next piece of the body.
func (c *Counter) Count(b []byte) {
	if c.Kind != Events && c.Kind != Lines {
		return
	}
	for {
		end := bytes.IndexByte(b, '\n')
		part := b
		if end >= 0 {
			part = b[:end]
		}
		if c.length < longestMark {
			copy(c.line[c.length:], part)
		}
		if c.length += len(part); end < 0 {
			return
		}
		c.endLine()
		b = b[end+1:]
	}
}

func (c *Counter) endLine() {
	line := bytes.TrimSuffix(c.line[:min(c.length, longestMark)], []byte("\r"))
	whole := c.length <= longestMark
	c.length = 0
	switch {
	case c.Kind == Lines:
		if len(line) > 0 {
			c.Messages++
		}
	case len(line) == 0: // the event ends; without data it is none, as a comment that keeps the connection
		if c.data {
			c.Messages++
		}
		c.data = false
	case bytes.HasPrefix(line, []byte(dataField)):
		c.data = c.data || !whole || string(bytes.TrimSpace(line[len(dataField):])) != endMark
	}
}
