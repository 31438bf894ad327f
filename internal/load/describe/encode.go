package describe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// encode encodes JSON as messages of a method's request. Without data it is one empty message.
func encode(m protoreflect.MethodDescriptor, data []byte, source string, types *dynamicpb.Types) ([][]byte, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	parts, err := split(data, m.IsStreamingClient())
	if err != nil {
		return nil, errorAt(data, int64(len(data)), source, err)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%s has no message", source)
	}
	if n := len(parts); n != 1 && !m.IsStreamingClient() {
		return nil, hint.New("a request stream takes several; a load calls the method once per request", "%s has %d messages, and %s takes one", source, n, m.FullName())
	}
	messages := make([][]byte, len(parts))
	for i, p := range parts {
		into := dynamicpb.NewMessage(m.Input())
		if err := (protojson.UnmarshalOptions{Resolver: types}).Unmarshal(p.text, into); err != nil {
			return nil, hint.New("a request: "+template(m.Input()), "%w", inside(data, p.from, source, err, m.Input()))
		}
		if messages[i], err = (proto.MarshalOptions{Deterministic: true}).Marshal(into); err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
	}
	return messages, nil
}

// part is one message in JSON, and its offset.
type part struct {
	text json.RawMessage
	from int64
}

// split finds the messages in data: values in a row, or the elements of an array if several are allowed.
func split(data []byte, several bool) (parts []part, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if several && bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		if _, err := d.Token(); err != nil {
			return nil, err
		}
		for d.More() {
			if parts, err = next(d, parts); err != nil {
				return nil, err
			}
		}
		_, err := d.Token()
		return parts, err
	}
	for {
		if parts, err = next(d, parts); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return parts, err
		}
	}
}

func next(d *json.Decoder, parts []part) ([]part, error) {
	var text json.RawMessage
	if err := d.Decode(&text); err != nil {
		return parts, err
	}
	return append(parts, part{text, d.InputOffset() - int64(len(text))}), nil
}

// errorAt returns an error of JSON with its file, line and column.
func errorAt(data []byte, offset int64, source string, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = max(0, syntax.Offset-1)
	}
	line, column := place(data, offset)
	return fmt.Errorf("%s:%d:%d: %w", source, line, column, err)
}

// position is how protojson writes a place in a message. The space may be a no-break one.
var position = regexp.MustCompile(`^proto:[\s\x{a0}]+(?:\(line (\d+):(\d+)\): |syntax error \(line (\d+):(\d+)\): )`)

// inside converts an error of protojson, whose places are within one message.
func inside(data []byte, from int64, source string, err error, of protoreflect.MessageDescriptor) error {
	text := err.Error()
	m := position.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("%s: %s: %s", source, of.FullName(), text)
	}
	if m[1] == "" {
		m[1], m[2] = m[3], m[4]
	}
	line, column := place(data, from)
	l, _ := strconv.Atoi(m[1])
	c, _ := strconv.Atoi(m[2])
	if l == 1 {
		c += column - 1
	}
	return fmt.Errorf("%s:%d:%d: %s: %s", source, line+l-1, c, of.FullName(), text[len(m[0]):])
}

// place converts an offset to line and column, from 1.
func place(data []byte, offset int64) (line, column int) {
	before := data[:min(offset, int64(len(data)))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1
}
