package echoverify_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/web/verify"
	"github.com/ebb-broker/ebb/web/verify/echoverify"
)

func ExampleMiddleware() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // in reality, the registered key of the resource server
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := verify.New(verify.Config{Issuer: "https://ebb.example", Resource: "https://orders.example/api", ClientID: "orders", Key: key, AnyScope: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	e := echo.New()
	e.Use(echoverify.Middleware(v))
	e.GET("/api/orders/:id", func(c echo.Context) error { return c.String(http.StatusOK, echoverify.TokenOf(c).TaskID) })
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://orders.example/api/orders/42", nil))
	fmt.Println(w.Code)
	// Output: 401
}
