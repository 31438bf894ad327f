package result

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// Cells are the figures of one row. A nil cell is unknown. Their JSON is a
// plain list of numbers and nulls. Reader and writer are hand-written: an
// import has hundreds of thousands of figures, and reflection takes most of a
// report's time.
type Cells []*float64

// MarshalJSON writes the list.
func (c Cells) MarshalJSON() ([]byte, error) {
	if c == nil {
		return []byte("null"), nil
	}
	b := c.append(make([]byte, 0, 2+12*len(c)))
	if b == nil {
		return json.Marshal([]*float64(c)) // its error contains the invalid value
	}
	return b, nil
}

// append writes the list. It returns nil if a value has no JSON form.
func (c Cells) append(b []byte) []byte {
	b = append(b, '[')
	for i, v := range c {
		if i > 0 {
			b = append(b, ',')
		}
		if v == nil {
			b = append(b, "null"...)
			continue
		}
		if b = appendNumber(b, *v); b == nil {
			return nil
		}
	}
	return append(b, ']')
}

// appendNumber writes a number. It returns nil if the number has no JSON form.
func appendNumber(b []byte, v float64) []byte {
	if v-v != 0 { // NaN or infinite
		return nil
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// UnmarshalJSON reads the list. encoding/json has already validated the text.
func (c *Cells) UnmarshalJSON(b []byte) error {
	s := scanner{b}
	cells, ok := s.cells()
	if !ok {
		return json.Unmarshal(b, (*[]*float64)(c))
	}
	*c = cells
	return nil
}

// cells reads a list of numbers and nulls.
func (s *scanner) cells() (Cells, bool) {
	end := bytes.IndexByte(s.rest, ']')
	if end < 0 || !s.take("[") {
		return nil, false
	}
	n := bytes.Count(s.rest[:end-1], []byte{','}) + 1
	cells, values := make(Cells, 0, n), make([]float64, n)
	for !s.take("]") {
		cell := &values[len(cells)]
		if s.take("null") {
			cell = nil
		} else if !s.number(cell) {
			return nil, false
		}
		cells = append(cells, cell)
		if !s.take(",") && !s.at(']') || len(cells) == n && !s.at(']') {
			return nil, false
		}
	}
	return cells, true
}

// Buckets are a histogram as JSON objects. Like [Cells], they have a
// hand-written reader for tare's own formatting.
type Buckets []Bucket

// MarshalJSON writes the list byte for byte as encoding/json does.
func (h Buckets) MarshalJSON() ([]byte, error) {
	if h == nil {
		return []byte("null"), nil
	}
	b := append(make([]byte, 0, 2+48*len(h)), '[')
	for i, x := range h {
		if x.LowMS-x.LowMS != 0 || x.HighMS-x.HighMS != 0 { // NaN or infinite
			return json.Marshal([]Bucket(h)) // its error contains the invalid value
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = appendAsLibrary(append(b, `{"lowMS":`...), x.LowMS)
		b = appendAsLibrary(append(b, `,"highMS":`...), x.HighMS)
		b = strconv.AppendInt(append(b, `,"count":`...), x.Count, 10)
		b = append(b, '}')
	}
	return append(b, ']'), nil
}

// appendAsLibrary writes a number as encoding/json does.
func appendAsLibrary(b []byte, v float64) []byte {
	if size := math.Abs(v); size == 0 || size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, v, 'e', -1, 64)
	if n := len(b); b[n-4] == 'e' && b[n-2] == '0' { // e-09
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b
}

// UnmarshalJSON reads the list.
func (h *Buckets) UnmarshalJSON(b []byte) error {
	s := scanner{b}
	all := make(Buckets, 0, bytes.Count(b, []byte{'{'}))
	ok := s.take("[")
	for ok && !s.take("]") {
		var low, high, count float64
		ok = s.take(`{"lowMS":`) && s.number(&low) && s.take(`,"highMS":`) && s.number(&high) &&
			s.take(`,"count":`) && s.number(&count) && s.take("}") && (s.take(",") || s.at(']'))
		// Numbers above 2^53 are not exact.
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
