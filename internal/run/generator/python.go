package generator

import (
	"bytes"
	"strconv"
	"unicode/utf8"
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
	return dictToJSON(text)
}

var pythonWords = map[string]string{
	"None": "null", "True": "true", "False": "false", "nan": "null", "NaN": "null", "inf": "null", "-inf": "null",
}

// dictToJSON rewrites strings and words. Numbers and brackets are the same in both notations.
func dictToJSON(b []byte) []byte {
	var out bytes.Buffer
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c == '\'' || c == '"':
			end := i + 1
			for end < len(b) && b[end] != c {
				if b[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end, len(b))
			out.WriteString(jsonString(unescapeBytes(b[i+1 : end])))
			i = end + 1
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' && i+1 < len(b) && b[i+1] == 'i':
			end := i + 1
			for end < len(b) && (b[end] >= 'a' && b[end] <= 'z' || b[end] >= 'A' && b[end] <= 'Z') {
				end++
			}
			word := string(b[i:end])
			if as, ok := pythonWords[word]; ok {
				word = as
			}
			out.WriteString(word)
			i = end
		default:
			out.WriteByte(c)
			i++
		}
	}
	return out.Bytes()
}

var pythonEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"'}

// unescapeBytes decodes the escapes of a bytes literal.
func unescapeBytes(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			out = append(out, b[i])
			continue
		}
		i++
		if c, ok := pythonEscapes[b[i]]; ok {
			out = append(out, c)
			continue
		}
		if b[i] == 'x' && i+2 < len(b) {
			if n, err := strconv.ParseUint(string(b[i+1:i+3]), 16, 8); err == nil {
				out = append(out, byte(n))
				i += 2
				continue
			}
		}
		out = append(out, '\\', b[i])
	}
	return out
}

// jsonString quotes s and replaces bytes that are invalid in JSON.
func jsonString(s []byte) string {
	var out bytes.Buffer
	out.WriteByte('"')
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r < 0x20:
			out.WriteString(`\u00`)
			out.WriteByte("01"[r>>4])
			out.WriteByte("0123456789abcdef"[r&15])
		default:
			out.WriteRune(r)
		}
		s = s[n:]
	}
	out.WriteByte('"')
	return out.String()
}
