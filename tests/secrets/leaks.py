"""Secrets in the surroundings they are found in. Each case: an id, the text, and what of it must go."""

from __future__ import annotations

import json

from attrs import frozen

from tests.secrets.drawing import AT, BASE62, BASE64URL, DASHES, HEX, UPPER, drawn, jwt, pem

RSA, RSA_LINES = pem()
OPENSSH, OPENSSH_LINES = pem("OPENSSH ", 5)
PLAIN_KEY, PLAIN_LINES = pem("", 4)
AWS_ID, AWS_SECRET = "AK" + "IA" + drawn(16, UPPER, "aws"), drawn(40, f"{BASE62}+", "aws secret")
GITHUB, GITHUB_FINE = "gh" + "p_" + drawn(36), "github" + "_pat_" + drawn(22) + "_" + drawn(59)
OPENAI, ANTHROPIC = "sk" + "-proj-" + drawn(48, BASE64URL, "openai"), "sk" + "-ant-api03-" + drawn(90, BASE64URL, "anthropic")
STRIPE, SLACK = "sk" + "_live_" + drawn(24, seed="stripe"), "xo" + "xb-2488736251-" + drawn(12, "0123456789") + "-" + drawn(24)
JWT = jwt()
HEX32, HEX64 = drawn(32, HEX, "short"), drawn(64, HEX, "long")
AZURE = drawn(86, f"{BASE62}+/", "azure") + "=="
WORD = "hunter" + "2"
PHRASE = "correct horse battery" + " staple"


@frozen
class Leak:
    """A text that holds secrets."""

    id: str
    text: str
    secrets: tuple[str, ...]


def _leak(id: str, text: str, *secrets: str) -> Leak:
    return Leak(id, text, secrets)


ISSUED = (
    _leak("aws-key-id-in-env-file", f"AWS_ACCESS_KEY_ID={AWS_ID}\nAWS_REGION=eu-west-1\n", AWS_ID),
    _leak(
        "aws-credentials-file", f"[default]\naws_access_key_id = {AWS_ID}\naws_secret_access_key = {AWS_SECRET}\n", AWS_SECRET
    ),
    _leak("aws-temporary-key-in-json", json.dumps({"AccessKeyId": AWS_ID.replace("AKIA", "ASIA")}), AWS_ID[4:]),
    _leak("aws-signed-address", f"https://b.s3.amazonaws.com/k?X-Amz-Date=20261122&X-Amz-Signature={HEX64}&x=1", HEX64),
    _leak(
        "gcp-key-in-address",
        f"GET https://maps.googleapis.com/maps/api/js?key=AI{'za'}{drawn(35, BASE64URL)} 200",
        drawn(35, BASE64URL),
    ),
    _leak("gcp-oauth-token-in-log", f"refreshed: ya{'29'}.{drawn(60, BASE64URL)} for project p-1", drawn(60, BASE64URL)),
    _leak("gcp-client-secret", f'client_secret: "GOC{"SPX"}-{drawn(28, BASE64URL)}"', drawn(28, BASE64URL)),
    _leak("gcp-service-account", json.dumps({"type": "service_account", "private_key": f"{PLAIN_KEY}\n"}), *PLAIN_LINES),
    _leak(
        "azure-storage-string",
        f"DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={AZURE};EndpointSuffix=core",
        AZURE[:80],
    ),
    _leak(
        "azure-service-bus", f"Endpoint=sb://acme.example/;SharedAccessKeyName=root;SharedAccessKey={AZURE[:43]}=", AZURE[:43]
    ),
    _leak("azure-signed-address", f"https://acme.blob.example/c?sv=2024-11-04&sp=r&sig={AZURE[:40]}%3D", AZURE[:40]),
    _leak("github-token-in-remote", f"origin\thttps://{GITHUB}{AT}github.com/acme/shop.git (push)", GITHUB),
    _leak("github-fine-token", f"warning: using {GITHUB_FINE} from keychain", GITHUB_FINE),
    _leak("github-app-token-in-json", json.dumps({"output": f"token gh{'s_'}{drawn(36, seed='app')}"}), drawn(36, seed="app")),
    _leak("gitlab-token-in-command", f"$ git clone https://oauth2:gl{'pat'}-{drawn(20)}{AT}gitlab.example/a/b.git", drawn(20)),
    _leak("npm-token-in-npmrc", f"//registry.npmjs.org/:_authToken=np{'m_'}{drawn(36)}\nsave-exact=true", drawn(36)),
    _leak("npmrc-old-auth", f"//npm.example/:_auth={drawn(28, seed='npmrc')}==\nalways-auth=true", drawn(28, seed="npmrc")),
    _leak(
        "pypirc",
        f"[pypi]\nusername = __token__\npassword = py{'pi'}-AgEIcHlwaS5vcmc{drawn(120, BASE64URL)}\n",
        drawn(120, BASE64URL),
    ),
    _leak("slack-bot-token", f"posting with {SLACK} to #ops", SLACK),
    _leak(
        "slack-webhook",
        f"curl -X POST https://hooks.slack.com/services/T024BE7LD/B0{drawn(9)}/{drawn(24, seed='hook')}",
        drawn(24, seed="hook"),
    ),
    _leak("stripe-key-in-code", f'stripe.api_key = "{STRIPE}"', STRIPE),
    _leak("stripe-webhook-secret", f"whs{'ec'}_{drawn(32, seed='whsec')}", drawn(32, seed="whsec")),
    _leak("openai-key-in-env-file", f"# models\nOPENAI_API_KEY={OPENAI}\n", OPENAI),
    _leak(
        "openai-key-in-error",
        f"openai.AuthenticationError: 401 - Incorrect API key provided: {OPENAI}. You can find yours",
        OPENAI,
    ),
    _leak("anthropic-key-in-header", f"> x-api-key: {ANTHROPIC}\n> anthropic-version: 2023-06-01", ANTHROPIC),
    _leak("sendgrid-key", f"SENDGRID=S{'G.'}{drawn(22, BASE64URL)}.{drawn(43, BASE64URL)}", drawn(43, BASE64URL)),
    _leak(
        "telegram-bot-address",
        f"POST https://api.telegram.org/bot7264518390:AA{drawn(33, BASE64URL)}/sendMessage",
        drawn(33, BASE64URL),
    ),
    _leak("hugging-face-token", f"huggingface-cli login --token h{'f_'}{drawn(34)}", drawn(34)),
    _leak("vault-token", f"VAULT_TOKEN=hv{'s.'}{drawn(24, BASE64URL)}", drawn(24, BASE64URL)),
    _leak("digital-ocean-token", f"doctl auth init -t do{'p_v1'}_{HEX64}", HEX64),
    _leak("databricks-token", f'databricks configure --host https://x.example --token "da{"pi"}{HEX32}"', HEX32),
    _leak("docker-token", f"docker login -u acme -p dck{'r_pat'}_{drawn(27, BASE64URL)}", drawn(27, BASE64URL)),
    _leak("jwt-in-shell-output", f"id_token={JWT}\nexpires_in=3600", JWT, JWT.split(".")[2]),
    _leak("jwt-in-prose", f"The server gave me {JWT} and I used it.", JWT),
)
KEYS = (
    _leak("rsa-key-in-file", f"$ cat deploy.key\n{RSA}\n$ ", *RSA_LINES),
    _leak("openssh-key-in-json", json.dumps({"stdout": OPENSSH, "code": 0}), *OPENSSH_LINES),
    _leak("key-in-diff", "\n".join(f"+{line}" for line in RSA.splitlines()), *RSA_LINES),
    _leak("key-in-yaml-block", "tls:\n  key: |\n" + "\n".join(f"    {line}" for line in PLAIN_KEY.splitlines()), *PLAIN_LINES),
    _leak("key-cut-off", "\n".join(RSA.splitlines()[:4]), *RSA_LINES[:3]),
    _leak("two-keys", f"{RSA}\n\nand\n\n{OPENSSH}\n", *RSA_LINES, *OPENSSH_LINES),
    _leak("pgp-key", RSA.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"), *RSA_LINES),
    _leak("key-twice-in-json", json.dumps({"log": json.dumps({"key": PLAIN_KEY})}), *PLAIN_LINES),
)
ADDRESSES = (
    _leak("postgres-address", f"DATABASE_URL=postgres://shop:{WORD}{AT}db.internal:5432/shop?sslmode=require", WORD),
    _leak("password-with-at-sign", f"mysql+pymysql://root:p{AT}ss{WORD}{AT}10.0.0.7/shop", WORD, f"p{AT}ss"),
    _leak("redis-without-user", f"redis.exceptions.ConnectionError: redis://:{WORD}{AT}cache:6379/0 refused", WORD),
    _leak("mongo-in-json", json.dumps({"uri": f"mongodb+srv://ann:{WORD}{AT}cluster0.example/?w=majority"}), WORD),
    _leak("amqp-in-traceback", f"  File 'a.py', line 3\n    connect('amqp://svc:{WORD}{AT}mq/prod')\nOSError", WORD),
    _leak("proxy-with-password", f"export https_proxy=http://ann:{WORD}{AT}proxy.example:3128", WORD),
    _leak("git-remote-with-password", f"fatal: unable to access 'https://ann:{WORD}{AT}git.example/a.git/'", WORD),
    _leak(
        "sentry-old-dsn",
        f"dsn=https://{drawn(32, HEX, 'key')}:{HEX32[::-1]}{AT}sentry.example/42",
        HEX32[::-1],
    ),
    _leak("password-in-query", f"GET /login?user=ann&password={WORD}&next=%2F HTTP/1.1", WORD),
    _leak(
        "access-token-in-query",
        f"https://graph.example/me?access_token={drawn(30, seed='graph')}&fields=id",
        drawn(30, seed="graph"),
    ),
    _leak("jdbc-query", f"jdbc:postgresql://db/shop?user=ann&password={WORD}", WORD),
    _leak("ado-connection-string", f"Server=tcp:acme,1433;User ID=ann;Password={WORD};Encrypt=True", WORD),
)
HEADERS = (
    _leak(
        "two-headers-on-a-line",
        f"authorization: Basic {drawn(20, seed='one')} authorization: Basic {drawn(20, seed='two')}",
        drawn(20, seed="one"),
        drawn(20, seed="two"),
    ),
    _leak("bearer-header", f"Authorization: Bearer {drawn(40, seed='bearer')}", drawn(40, seed="bearer")),
    _leak("bearer-in-curl", f"curl -H 'Authorization: Bearer {drawn(24, HEX)}' https://api.example", drawn(24, HEX)),
    _leak("bearer-in-json", json.dumps({"headers": {"authorization": f"Bearer {WORD}abc"}}), WORD),
    _leak("basic-header", "authorization: Basic " + "YW5uOmh1bnRlcjI=", "YW5uOmh1bnRlcjI"),
    _leak("token-header", f"Authorization: token {drawn(40, HEX, 'th')}", drawn(40, HEX, "th")),
    _leak(
        "aws-signature-header",
        f"Authorization: AWS4-HMAC-SHA256 Credential={AWS_ID}/x, SignedHeaders=host, Signature={HEX64}",
        HEX64,
    ),
    _leak("bearer-alone", f"sent bearer {drawn(32, seed='alone')}; got 403", drawn(32, seed="alone")),
    _leak("cookie-header", f"Cookie: theme=dark; session={drawn(32, seed='cookie')}", drawn(32, seed="cookie")),
    _leak("set-cookie-header", f"< Set-Cookie: sid={WORD}; Path=/; HttpOnly", WORD),
    _leak("api-key-header", f"X-Api-Key: {HEX32}", HEX32),
    _leak(
        "gitlab-header",
        f'curl --header "PRIVATE-TOKEN: {drawn(20, seed="header")}" https://gitlab.example/api/v4',
        drawn(20, seed="header"),
    ),
)
NAMED = (
    _leak("password-in-json", json.dumps({"user": "ann", "password": WORD}), WORD),
    _leak("password-in-json-in-json", json.dumps({"body": json.dumps({"password": WORD})}), WORD),
    _leak("password-in-indented-json", json.dumps({"db": {"host": "x", "password": WORD}}, indent=2), WORD),
    _leak("passphrase-with-spaces", f'passphrase: "{PHRASE}"', PHRASE, "battery"),
    _leak("password-with-quote", "PASSWORD=\"don't" + WORD + '"', WORD),
    _leak("password-with-escaped-quote", json.dumps({"password": f'a"b{WORD}'}), WORD, "b" + WORD),
    _leak("exported-secret", f"export SESSION_SECRET={drawn(16, seed='export')}", drawn(16, seed="export")),
    _leak("env-file-with-commas", f"DB_PASSWORD=a,b;{WORD}\nDB_HOST=x", WORD),
    _leak("env-in-docker", f"docker run -e POSTGRES_PASSWORD={WORD} -e TZ=UTC postgres:16", WORD),
    _leak("yaml-password", f"database:\n  user: shop\n  password: {WORD}\n  port: 5432", WORD),
    _leak("yaml-folded", f"password: >-\n  {WORD}\nuser: ann", WORD),
    _leak("ini-file", f"[client]\nuser = ann\npassword = {WORD}\n", WORD),
    _leak("letters-only-in-ini", "[client]\npassword = sword" + "fish\n", "sword" + "fish"),
    _leak("toml-nested", f'[db]\nsecret_key = "{drawn(12)}"', drawn(12)),
    _leak("properties-file", f"spring.datasource.password={WORD}", WORD),
    _leak("python-source", f"client = Client(user='ann', password='{WORD}')", WORD),
    _leak("annotated-python", f'API_KEY: str = "{HEX32}"', HEX32),
    _leak("javascript-source", f"const cfg = {{ apiKey: '{drawn(20, seed='js')}', debug: true }}", drawn(20, seed="js")),
    _leak("go-source", f'clientSecret := "{drawn(20, seed="go")}"', drawn(20, seed="go")),
    _leak("ruby-hash", f'{{ :password => "{WORD}" }}', WORD),
    _leak("compared-in-source", f'    if password == "{WORD}":', WORD),
    _leak("diff-of-settings", f'-DB_PASSWORD = "old{WORD}"\n+DB_PASSWORD = "new{WORD}"', f"old{WORD}", f"new{WORD}"),
    _leak("repr-in-traceback", f"TypeError: connect() got Config(host='db', password='{WORD}', port=1)", WORD),
    _leak("dict-in-traceback", f"ValueError: bad settings {{'db_password': '{WORD}', 'port': 'x'}}", WORD),
    _leak("bytes-in-traceback", f"signing_key=b'{drawn(24, seed='bytes')}'", drawn(24, seed="bytes")),
    _leak("xml-settings", f"<server><username>ann</username><password>{WORD}</password></server>", WORD),
    _leak("option-of-a-command", f"$ backup --user ann --password {WORD} --to s3://b", WORD),
    _leak("option-with-equals", f"$ deploy --api-key={drawn(18, seed='opt')} --dry-run", drawn(18, seed="opt")),
    _leak("mysql-option", f"mysql -h db -u root -p{WORD} shop", WORD),
    _leak("curl-user", f"curl -s -u ann:{WORD} https://api.example/v1", WORD),
    _leak("sshpass", f"sshpass -p '{WORD}' ssh ann{AT}host uptime", WORD),
    _leak("netrc", f"machine api.example\n  login ann\n  password {WORD}\n", WORD),
    _leak("redis-conf", f"bind 127.0.0.1\nrequirepass {WORD}", WORD),
    _leak("wallet-words", json.dumps({"mnemonic": "abandon ability able about above absent absorb abstract"}), "absorb"),
    _leak("wallet-key", json.dumps({"private_key": f"0x{HEX64}"}), HEX64),
    _leak("generic-token", json.dumps({"token": drawn(32, seed="generic")}), drawn(32, seed="generic")),
    _leak("vendor-key", f"TMDB_KEY={HEX32}", HEX32),
    _leak("words-with-space", f"Your API key: {drawn(24, seed='words')} (keep it)", drawn(24, seed="words")),
    _leak("value-on-the-next-line", f'"password":\n    "{WORD}"', WORD),
    _leak("text-cut-in-the-value", f'{{"user": "ann", "password": "{WORD}', WORD),
    _leak("password-in-powershell", f'$env:DB_PASSWORD = "{WORD}"', WORD),
    _leak("prompt-and-answer", f"Password: {WORD}", WORD),
    _leak("not-ascii-around", f"İstanbul ünlü şifre — password: {WORD} ☃", WORD),
    _leak("dashes-around", f"{DASHES} token={drawn(24, seed='dash')} {DASHES}", drawn(24, seed="dash")),
)
BEFORE = {
    "colour": "\x1b[32m",
    "end-of-colour": "\x1b[0m",
    "colour-in-json": "\\u001b[32m",
    "colour-in-python": "\\x1b[1;31m",
    "colour-in-octal": "\\033[1m",
    "colour-with-caret": "^[[32m",
    "colour-without-escape": "[38;5;12m",
    "accented-letter": "é",
    "letters-of-china": "令牌",
    "equals-in-address": "token%3D",
    "space-in-address": "x%20",
    "quote-in-json": "\\u0022",
    "equals-in-json": "id\\u003d",
    "equals-in-mail": "x=3D",
    "backspace": "\\b",
    "underscore": "token_",
    "dash": "token-",
}
GLUED = (
    *(
        _leak(f"{before}-before-{name}", f"x {text}{secret} y", secret)
        for before, text in BEFORE.items()
        for name, secret in {"github": GITHUB, "aws": AWS_ID, "anthropic": ANTHROPIC, "jwt": JWT, "openai": OPENAI}.items()
    ),
    _leak("letter-before-github", f"x{GITHUB}", GITHUB),
    _leak("letter-before-slack", f"is{SLACK}", SLACK),
)
SEED = "legal winner thank year wave sausage worth useful legal winner thank yellow"
BESIDE = (
    _leak("old-token-of-vault", f"export VAULT_TOKEN=s.{drawn(24, seed='vault')}", drawn(24, seed="vault")),
    _leak("redis-cli", f"redis-cli -h cache -a {WORD}x ping", f"{WORD}x"),
    _leak("mongosh", f"mongosh --host db -u admin -p {WORD} --authenticationDatabase admin", WORD),
    _leak("docker-login", f"docker login -u acme -p {HEX32} registry.example.com", HEX32),
    _leak("az-login", f"az login --service-principal -u 1 -p {drawn(40, seed='az')} --tenant t", drawn(40, seed="az")),
    _leak("htpasswd", f"htpasswd -bc .htpasswd ann {WORD}", WORD),
    _leak("define-in-php", f"define('DB_PASSWORD', '{WORD}');", WORD),
    _leak("xml-attributes", f'<add key="Password" value="{WORD}"/>', WORD),
    _leak("seed-phrase", f"seed phrase: {SEED}", SEED),
    _leak("slash-in-password-of-address", f"amqp://u:p#ss/{WORD}{AT}host/v", WORD),
    _leak("hash-in-password-of-address", f"amqp://u:p#ss{WORD}{AT}host/v", WORD),
    _leak("aws-table", f"Access key ID,Secret access key\n{AWS_ID},{AWS_SECRET}", AWS_ID, AWS_SECRET),
    _leak(
        "putty-key",
        f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 2\n{RSA_LINES[0]}\n{RSA_LINES[1]}\nPrivate-MAC: {HEX64}",
        *RSA_LINES[:2],
    ),
    _leak("wallet-import-format", f"privkey 5{'J3mBbAH58CpQ3Y5RNJpUKPE62SQ5tfcvU2JpbnkeyhfsYB1Jcn'}", "J3mBbAH58CpQ3Y5RNJ"),
    _leak("markdown-table", f"| name | value |\n| --- | --- |\n| password | {WORD}x |", f"{WORD}x"),
    _leak("pw", f"user: ann pw: {WORD}", WORD),
    _leak("jfrog-header", f"X-JFrog-Art-Api: AKCp{drawn(69, seed='jfrog')}", drawn(69, seed="jfrog")),
    _leak("short-jfrog-header", f"X-JFrog-Art-Api: {HEX32}", HEX32),
    _leak("secure-string", f"ConvertTo-SecureString '{WORD}' -AsPlainText -Force", WORD),
)
LEAKS = (*ISSUED, *KEYS, *ADDRESSES, *HEADERS, *NAMED, *GLUED, *BESIDE)
