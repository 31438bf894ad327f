package generator

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
)

// fromPython converts the Python repr of a JSON document back to JSON: bytes
// (b'…') or a dict (single quotes, None, True, False, nan, inf). It returns JSON
// and any other text unchanged, and the JSON decoder refuses the latter.
func fromPython(text []byte) []byte {
	text = bytes.TrimSpace(text)
	if n := len(text); n >= 3 && text[0] == 'b' && (text[1] == '\'' || text[1] == '"') && text[n-1] == text[1] {
		text = bytes.TrimSpace(unescapeBytes(text[2 : n-1]))
	}
	if len(text) == 0 || text[0] != '{' || !bytes.HasPrefix(bytes.TrimLeft(text[1:], " \t\r\n"), []byte("'")) {
		return text
	}
	return pythonTokens.ReplaceAllFunc(text, func(token []byte) []byte {
		if c := token[0]; c != '\'' && c != '"' {
			if as, ok := pythonWords[string(token)]; ok {
				return []byte(as)
			}
			return token
		}
		quoted, _ := json.Marshal(string(unescapeBytes(token[1 : len(token)-1]))) // of a string it cannot fail
		return quoted
	})
}

// pythonTokens are strings and words. Numbers and brackets are the same in both notations.
var pythonTokens = regexp.MustCompile(`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?[A-Za-z]+`)

var pythonWords = map[string]string{
	"None": "null", "True": "true", "False": "false", "nan": "null", "NaN": "null", "inf": "null", "-inf": "null",
}

var pythonEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"'}

// escaped is an escape of a bytes literal.
var escaped = regexp.MustCompile(`(?s)\\(?:x[0-9A-Fa-f]{2}|.)`)

// unescapeBytes decodes the escapes of a bytes literal.
func unescapeBytes(b []byte) []byte {
	return escaped.ReplaceAllFunc(b, func(e []byte) []byte {
		if c, ok := pythonEscapes[e[1]]; ok {
			return []byte{c}
		}
		if n, err := strconv.ParseUint(string(e[2:]), 16, 8); e[1] == 'x' && err == nil {
			return []byte{byte(n)}
		}
		return e
	})
}
