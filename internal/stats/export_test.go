package stats

// Last is the critical value of the last look.
func (s Spending) Last() float64 { return s.critical[len(s.critical)-1] }
