package result

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Cells are the figures of one row; nil is unknown. In JSON they are an ordinary
// list of numbers and nulls. It is read and written by hand because an import
// has hundreds of thousands of them, and reflection takes most of a report's time.
type Cells []*float64

// MarshalJSON writes the list.
func (c Cells) MarshalJSON() ([]byte, error) {
	if c == nil {
		return []byte("null"), nil
	}
	b := make([]byte, 1, 2+12*len(c))
	b[0] = '['
	for i, v := range c {
		if i > 0 {
			b = append(b, ',')
		}
		if v == nil {
			b = append(b, "null"...)
			continue
		}
		if b = appendNumber(b, *v); b == nil {
			return json.Marshal([]*float64(c)) // it says which value has no place in JSON
		}
	}
	return append(b, ']'), nil
}

// appendNumber writes a number; nil where JSON has none for it.
func appendNumber(b []byte, v float64) []byte {
	if v-v != 0 { // NaN or infinite
		return nil
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// UnmarshalJSON reads the list. Its text has been found to be JSON before.
func (c *Cells) UnmarshalJSON(b []byte) error {
	s := scanner{b}
	if !s.take("[") {
		return json.Unmarshal(b, (*[]*float64)(c))
	}
	n := bytes.Count(b, []byte{','}) + 1
	cells, values := make(Cells, 0, n), make([]float64, n)
	for !s.take("]") {
		cell := &values[len(cells)]
		if s.take("null") {
			cell = nil
		} else if !s.number(cell) {
			return json.Unmarshal(b, (*[]*float64)(c))
		}
		cells = append(cells, cell)
		if !s.take(",") && !s.at(']') || len(cells) == n && !s.at(']') {
			return json.Unmarshal(b, (*[]*float64)(c))
		}
	}
	*c = cells
	return nil
}

// Buckets are a histogram as JSON objects, read by hand as [Cells] are where they
// look as tare writes them.
type Buckets []Bucket

// UnmarshalJSON reads the list.
func (h *Buckets) UnmarshalJSON(b []byte) error {
	s := scanner{b}
	all := make(Buckets, 0, bytes.Count(b, []byte{'{'}))
	ok := s.take("[")
	for ok && !s.take("]") {
		var low, high, count float64
		ok = s.take(`{"lowMS":`) && s.number(&low) && s.take(`,"highMS":`) && s.number(&high) &&
			s.take(`,"count":`) && s.number(&count) && s.take("}") && (s.take(",") || s.at(']'))
		// Beyond 2^53 a number is no longer read to its last digit.
		ok = ok && count == float64(int64(count)) && count < 1<<53 && count > -1<<53
		all = append(all, Bucket{low, high, int64(count)})
	}
	if !ok {
		return json.Unmarshal(b, (*[]Bucket)(h))
	}
	*h = all
	return nil
}

// scanner reads JSON without spaces.
type scanner struct{ rest []byte }

func (s *scanner) at(c byte) bool { return len(s.rest) > 0 && s.rest[0] == c }

func (s *scanner) take(text string) bool {
	if len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

func (s *scanner) number(v *float64) bool {
	n := 0
	for n < len(s.rest) && (s.rest[n] >= '0' && s.rest[n] <= '9' || s.rest[n] == '.' || s.rest[n] == '-' || s.rest[n] == '+' || s.rest[n]|0x20 == 'e') {
		n++
	}
	x, err := strconv.ParseFloat(string(s.rest[:n]), 64)
	if err != nil {
		return false
	}
	*v, s.rest = x, s.rest[n:]
	return true
}
