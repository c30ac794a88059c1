"""What only looks like a secret, and must stay as it is. Each case: an id and the text."""

from __future__ import annotations

import base64
import hashlib
import json

from tests.secrets.drawing import AT, DASHES

SHA1, SHA256 = hashlib.sha1(b"commit").hexdigest(), hashlib.sha256(b"file").hexdigest()
UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
IMAGE = base64.b64encode(bytes(range(256)) * 4).decode()

PROSE = {
    "password-in-prose": "Reset your password on the settings page; a password must have twelve characters.",
    "password-rule": "password: must be at least 8 characters",
    "password-error": '{"errors": {"password": "This field is required.", "name": "ok"}}',
    "token-in-prose": "Each token counts. The token: a unit of text. Tokens left: 1200.",
    "key-in-prose": "The key to success is patience, and the key point: measure first.",
    "secret-in-prose": "The secret is to write less. It is no secret: everyone does.",
    "bearer-in-prose": "The bearer of this letter, and bearer instruments such as bonds",
    "basic-in-prose": "Basic authentication is not supported; basic understanding is enough",
    "authorization-in-prose": "Authorization: required for every order above the limit",
    "credentials-missing": "credentials: missing",
    "secret-santa": "secret_santa=Ann and the secret garden",
    "keyboard": "keyboard: qwerty, monkey: 3, turkey: 2",
    "compass": "compass: north-northwest, bypass: M25",
    "pass-and-fail": "first_pass: ok, second pass: 14 tests, PASS: 12, tests pass: all",
    "file-of-passwords": "cat: /etc/passwd: No such file or directory",
    "option-in-prose": "use --password to be asked for it, or --token in scripts",
    "task-force": "task-force-of-the-european-commission-2024 and disk-usage-report-for-2026-11",
    "author": "author: Ann Other; authority: the store",
    "question": "Forgot your password? Passwords: two. Tokens?",
}
CODE = {
    "annotation": "def login(user: str, password: str, token: str | None = None) -> Token:",
    "keyword-argument": "connect(host=host, password=password, token=self.token, key=key)",
    "read-from-environment": 'password = os.environ["DB_PASSWORD"]',
    "getenv": 'api_key = os.getenv("API_KEY")',
    "call": "password = getpass.getpass()",
    "attribute": "secret = settings.SECRET_KEY",
    "process-env": "const apiKey = process.env.API_KEY;",
    "mapped-column": "password: Mapped[str] = mapped_column(String(128))",
    "none": "password=None, secret=False, api_key=''",
    "json-schema": json.dumps({"properties": {"password": {"type": "string", "minLength": 8}}, "required": ["password"]}),
    "key-error": "KeyError: 'password'",
    "html-input": '<label>Password</label> <input type="password" name="password" placeholder="Password">',
    "subscript": "token = tokens[0]; next_token = tokens[i + 1]",
    "sort-key": "items.sort(key=lambda item: item.created_at)",
    "lambda-key": "max(rows, key=itemgetter('price'))",
    "sql": "ALTER TABLE users ADD COLUMN password VARCHAR(128) NOT NULL, ADD PRIMARY KEY (id)",
    "typescript": "interface Login { password: string; token?: string }",
    "go-struct": 'type Login struct { Password string `json:"password"` }',
    "github-secrets": "env:\n  TOKEN: ${{ secrets.GITHUB_TOKEN }}\n  NPM_TOKEN: ${{ secrets.NPM_TOKEN }}",
    "model-vocabulary": json.dumps({"eos_token": "<|endoftext|>", "pad_token": "[PAD]", "max_tokens": 4096}),
    "usage": json.dumps({"input_tokens": 10234, "output_tokens": 512, "total_tokens": 10746}),
    "paging": json.dumps({"next_page_token": "CAUQAA8xY7z2Kq90bC1d"}),
    "columns": json.dumps({"primary_key": "id", "foreign_key": "user_id", "cache_key": SHA256}),
}
PLACEHOLDERS = {
    "angle-brackets": "export API_KEY=<your-api-key>",
    "braces": "curl -H 'Authorization: Bearer ${TOKEN}' https://api.example",
    "shell-variable": "docker login -p $REGISTRY_PASSWORD",
    "stars": "password: ********",
    "your-token-here": 'token = "your-token-here"',
    "xs": "AWS_SECRET_ACCESS_KEY=xxxxxxxxxxxxxxxx",
    "dots": "GITHUB_TOKEN=...",
    "template": 'password: "{{ .Values.db.password }}"',
    "variable-in-address": f"postgres://shop:${{DB_PASSWORD}}{AT}db/shop",
    "redacted": '{"password": "[REDACTED]"}',
    "percent": "password=%s token=%(token)s",
    "change-me": "SECRET_KEY=changeme",
}
NUMBERS = {
    "trading-state": json.dumps({"token": "BTC", "tokens": 1200, "key": "close", "secret_santa": "Ann", "side": "buy"}),
    "token-address": json.dumps({"token": "0xdAC17F958D2ee523a2206206994597C13D831ec7", "decimals": 6}),
    "transaction": json.dumps({"tx": f"0x{SHA256}", "block": 21_234_567}),
    "git-hash": f"commit {SHA1}\nAuthor: Ann",
    "short-hash": f"HEAD is now at {SHA1[:9]} Keep the key",
    "sha256": f"sha256:{SHA256}",
    "digest-of-image": f"FROM python:3.12@sha256:{SHA256}",
    "lock-file": f'"integrity": "sha512-{IMAGE[:86]}=="',
    "uuid": json.dumps({"id": UUID, "parent": UUID}),
    "order-id": json.dumps({"client_order_id": "ord-2026-11-22-000123", "order_key": "EURUSD-1"}),
    "image": f"data:image/png;base64,{IMAGE}",
    "isbn": "ISBN 978-3-16-148410-0",
    "prices": "EURUSD 1.08345 1.08351, BTC-USD 97123.50, 2026-11-22T08:28:28.123456Z",
    "iban-like": "DE89 3704 0044 0532 0130 00",
    "step-numbers": "step 1234567890123456, seq 98765432109876543210",
    "version": "durable-harnesses-0.1.0-py3-none-any.whl",
    "path": "/usr/lib/python3.11/site-packages/keyring/backends/SecretService.py:42",
    "key-path": "private_key: ~/.ssh/id_ed25519",
    "certificate-path": "ssl_certificate_key /etc/ssl/private/site.key;",
    "long-name": "test_a_token_that_is_bound_to_one_step_is_consumed_once_and_before_the_effect PASSED",
    "object-key": json.dumps({"object_key": "data/2026/11/22/file1.parquet"}),
}
PUBLIC = {
    "public-key": f"{DASHES}BEGIN PUBLIC KEY{DASHES}\n{IMAGE[:64]}\n{DASHES}END PUBLIC KEY{DASHES}",
    "certificate": f"{DASHES}BEGIN CERTIFICATE{DASHES}\n{IMAGE[:64]}\n{DASHES}END CERTIFICATE{DASHES}",
    "ssh-public-key": f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{IMAGE[:40]} ann{AT}laptop",
    "publishable-key": f'publishable_key = "pk_live_{SHA256[:24]}"',
    "fingerprint": "SHA256:uNiVztksCsDhcc0u9e8BrqR3rT9dJ4Kz3pAhhRk2vvA (ED25519)",
    "jwt-looking-words": "eyJ.is.how.they.begin and eyJust a word",
    "address-without-password": f"ssh://git{AT}github.com:22/acme/shop.git and https://example.com:8443/a?b={AT}c",
    "address-with-port": f"http://localhost:8080/{AT}scope/package",
    "mail": f"write to ann{AT}example.com or key-account-manager{AT}example.com",
    "npm-scope": f"npm install {AT}types/node-key-store",
    "package-names": "sk-learn-contrib-package and scikit-learn, key-value-store, hf_transfer, npm_config_cache",
    "words-that-end-like-a-beginning": "task-0001-colony-optimisation-2024-run and risk-2026-model-of-the-desk-v12",
    "keys-of-caches": f"cache_key-{SHA256[:32]} and idempotency-key-{SHA256[:32]}",
    "ants": "task-ant-colony-optimisation-2024-run-12",
    "credentials-of-a-request": "fetch(url, {credentials: 'same-origin'}) or credentials: include",
    "length-of-a-password": "password: 8-64 characters",
    "arn": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf",
    "checksum-key": f"checksum key: {SHA256[:32]}",
    "ports-and-pipes": "docker run -p 8080:80 nginx; ssh -p 2222 ann; mongosh -p; redis-cli -p 6379; docker login ghcr.io",
    "table-of-an-api": "| password | string | required, 8-64 characters |\n| user | password | role |",
    "attributes": '<add key="PageSize" value="25"/> <input name="token" value="BTC"/>',
    "constants": "define('DB_HOST', 'localhost'); define('VERSION', '1.2.3')",
    "wifi": "wifi: on, privkey: none, spwn: 3, pwm: 20",
    "address-of-scope": f"http://host:port/{AT}scope/x1 and oci://registry:5000/acme{AT}sha256:1",
    "empty-header": "Cookie: \nAuthorization: \nX-Api-Key: \n",
}
LOOK_ALIKES = {**PROSE, **CODE, **PLACEHOLDERS, **NUMBERS, **PUBLIC}
