package experiment

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	redact "github.com/tare-mesh/tare/internal/base/secret"
	"github.com/tare-mesh/tare/internal/load"
)

// Request is one kind of request of the load. An absent field has tare's default.
type Request struct {
	// Name identifies the request in the results. By default it is method and path, or the gRPC method.
	Name   string `yaml:"name,omitempty" json:"name,omitempty"`
	Method string `yaml:"method,omitempty" json:"method,omitempty"` // default GET, or POST with a body
	Path   string `yaml:"path,omitempty" json:"path,omitempty"`     // with a query, at the entry, default /
	// GRPC is the method "package.Service/Method", in place of method and path.
	GRPC string `yaml:"grpc,omitempty" json:"grpc,omitempty"`
	// Headers may contain ${env:NAME} and ${file:PATH}, which no record contains.
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	Body    Body              `yaml:"body,omitempty" json:"body,omitempty"` // of gRPC: the encoded message
	// BodyFile is read with the experiment, and becomes Body.
	BodyFile string `yaml:"bodyFile,omitempty" json:"bodyFile,omitempty"`
	// Stream names the side of a gRPC method that sends several messages. Messages are the client's messages,
	// encoded.
	Stream   string `yaml:"stream,omitempty" json:"stream,omitempty"`
	Messages []Body `yaml:"messages,omitempty" json:"messages,omitempty"`
	Weight   int    `yaml:"weight,omitempty" json:"weight,omitempty"` // share of the request: weight over the sum of all
}

// Host is the header Host that the file sets: of all requests, or of the first that has one. Empty: none.
func (l *Load) Host() string {
	all := []map[string]string{l.Headers}
	for i := range l.Requests {
		all = append(all, l.Requests[i].Headers)
	}
	for _, headers := range all {
		for name, value := range headers {
			if strings.EqualFold(name, "host") {
				return value
			}
		}
	}
	return ""
}

// Streams of gRPC. With both, each message is sent after the answer to the one before.
const (
	StreamServer = "server"
	StreamClient = "client"
	StreamBoth   = "both"
)

var streams = []string{StreamServer, StreamClient, StreamBoth}

// Body is the content of a request: text, or "base64:" and its encoding.
type Body string

const base64Body = "base64:"

// Wants describes the text for messages.
func (Body) Wants() string { return "text, or base64: and the encoded bytes" }

// UnmarshalScalar reads a body.
func (b *Body) UnmarshalScalar(text string) error {
	encoded, ok := strings.CutPrefix(text, base64Body)
	if !ok {
		*b = Body(text)
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return fmt.Errorf("found %.40q, expected %s", text, b.Wants())
	}
	*b = Body(raw)
	return nil
}

// MarshalText writes bytes that are not UTF-8 in base64.
func (b Body) MarshalText() ([]byte, error) {
	if utf8.ValidString(string(b)) && !strings.HasPrefix(string(b), base64Body) {
		return []byte(b), nil
	}
	return []byte(base64Body + base64.StdEncoding.EncodeToString([]byte(b))), nil
}

// UnmarshalText reads what MarshalText has written.
func (b *Body) UnmarshalText(text []byte) error { return b.UnmarshalScalar(string(text)) }

// WithSecrets replaces the placeholders of a header's value. No error contains a secret.
func WithSecrets(value string) (string, error) {
	if wrong := checkPlaceholders(value); wrong != "" {
		return "", hint.New("write ${env:NAME} or ${file:PATH}", "%s is not a placeholder", clip(wrong))
	}
	var errs []error
	replaced := placeholder.ReplaceAllStringFunc(value, func(whole string) string {
		text, err := secret(whole[2 : len(whole)-1])
		if err == nil && !load.IsFieldValue(text) {
			err = fmt.Errorf("%s has control characters, such as line breaks", whole)
		}
		errs = append(errs, err)
		return text
	})
	return replaced, errors.Join(errs...)
}

// placeholder is a part of a header's value that is read when the run starts.
var placeholder = regexp.MustCompile(`\$\{([^}]*)\}`)

const (
	fromEnv  = "env:"
	fromFile = "file:"
	// maxSecret bounds the file of a placeholder, in bytes.
	maxSecret = 64 << 10
)

// checkPlaceholders returns the first part of a header's value that looks like a placeholder and is not one.
func checkPlaceholders(value string) (wrong string) {
	for _, m := range placeholder.FindAllStringSubmatch(value, -1) {
		name, isEnv := strings.CutPrefix(m[1], fromEnv)
		path, isFile := strings.CutPrefix(m[1], fromFile)
		if !isEnv && !isFile || isEnv && name == "" || isFile && path == "" {
			return m[0]
		}
	}
	return ""
}

// secret reads the source of a placeholder. No file of a run contains its value from then on.
func secret(source string) (string, error) {
	if name, ok := strings.CutPrefix(source, fromEnv); ok {
		text, set := os.LookupEnv(name)
		if !set {
			return "", hint.New("set it before tare run; the record has its name only", "environment variable %s is not set", name)
		}
		redact.Add(text)
		return text, nil
	}
	path, _ := strings.CutPrefix(source, fromFile)
	text, err := regular.ReadInput(path, maxSecret)
	if err != nil {
		return "", fmt.Errorf("read header: %w", err)
	}
	value := strings.TrimRight(string(text), "\r\n")
	redact.Add(value)
	return value, nil
}
