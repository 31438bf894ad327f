package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/load"
)

// registerRequest registers the flags of one request, which are the same for every command that sends one.
func registerRequest(flags *pflag.FlagSet, method, data *string, headers *[]string) {
	flags.StringVarP(method, "method", "m", "", "request method (default GET, or POST with a body)")
	flags.StringVar(data, "data", "", "request body: `text`, @file, or @- for standard input")
	flags.StringArrayVarP(headers, "header", "H", nil, "request header `\"Name: value\"`; may be repeated. A secret is ${env:NAME} or ${file:PATH}: other users can see the command line")
}

// registerPrepare registers the flag of programs that end. Their standard input is --data.
func registerPrepare(flags *pflag.FlagSet, prepare *string) {
	flags.StringVar(prepare, "prepare", "", "`command` before each execution of a program that ends, not measured; no shell is started")
}

// inputOf is the file of --data, which a program that ends reads, "" for a text.
func inputOf(data string) string {
	name, isFile := strings.CutPrefix(data, "@")
	if !isFile || name == "-" {
		return ""
	}
	if path, err := filepath.Abs(name); err == nil {
		return path
	}
	return name
}

// readBody returns the body of --data.
func readBody(data string, in io.Reader) (body []byte, err error) {
	name, isFile := strings.CutPrefix(data, "@")
	body = []byte(data)
	switch {
	case name == "-" && isFile:
		body, err = io.ReadAll(io.LimitReader(in, load.MaxRequestSize))
	case isFile:
		body, err = regular.ReadInput(name, load.MaxRequestSize)
	}
	if err != nil {
		err = fmt.Errorf("read --data: %w", err)
	}
	return body, err
}
