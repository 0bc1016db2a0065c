package chart

// height of every chart, in SVG units. Stack and Line compute the width.
const height = 100.0

const (
	column = 10.0 // width of one column
	gap    = 1.5  // margin left and right of its rectangle
)

// Series is one counted quantity.
type Series struct {
	Name  string
	Class string // CSS class that sets its colour
	Of    []int  // one number a column, negative ones count as 0
}

// Sum returns the sum of all columns.
func (s Series) Sum() int {
	n := 0
	for _, v := range s.Of {
		n += max(v, 0)
	}
	return n
}

// Rect is a rectangle. Y grows downwards.
type Rect struct {
	X, Y, W, H float64
	Class      string
}

// Stack is a chart of stacked columns.
type Stack struct {
	Width, Height float64
	Top           int // the number at the upper edge: a round one, at least 1
	Rects         []Rect
	Series        []Series
}

// NewStack stacks the series, the first one lowest. Missing values at the end
// of a shorter series count as 0.
func NewStack(series ...Series) Stack {
	n := 0
	for _, s := range series {
		n = max(n, len(s.Of))
	}
	c := Stack{Width: float64(max(n, 1)) * column, Height: height, Series: series}
	sums := make([]int, n)
	for _, s := range series {
		for i, v := range s.Of {
			sums[i] += max(v, 0)
		}
	}
	for _, v := range sums {
		c.Top = max(c.Top, v)
	}
	c.Top = round(c.Top)
	for i := range n {
		y := height
		for _, s := range series {
			if i >= len(s.Of) || s.Of[i] <= 0 {
				continue
			}
			h := height * float64(s.Of[i]) / float64(c.Top)
			y -= h
			c.Rects = append(c.Rects, Rect{X: float64(i)*column + gap, Y: max(y, 0), W: column - 2*gap, H: h, Class: s.Class})
		}
	}
	return c
}

// round returns the smallest of 1, 2, 4, 5, 10, 20, 40, 50, 100 ... that is at
// least n.
func round(n int) int {
	for p := 1; ; p *= 10 {
		for _, m := range [...]int{1, 2, 4, 5} {
			if m*p >= n || p == 1e18 && m == 5 {
				return m * p
			}
		}
	}
}
